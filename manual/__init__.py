"""How the manual is made: pages of docs/, pages generated from the code, and tutorials that are run."""
