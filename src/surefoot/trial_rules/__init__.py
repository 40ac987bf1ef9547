"""The rules of a trial: who decides, with which probabilities, what is drawn, and which policy may go live.

The service keeps them with a database, rehearsals on simulated people; there is one implementation.
"""
