"""Lessons: small computations that show, with a real model and real gradients, what the rest of the library rests on.

One module a lesson; each gives finished numbers and knows nothing of pages. They stand above everything that they
show and nothing else of the library uses them.
"""
