"""The decision service: randomises, records before it answers, learns each night. It holds no mathematics of its own."""
