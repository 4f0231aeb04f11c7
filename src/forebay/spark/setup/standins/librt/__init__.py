"""A stand-in for the part of mypyc's library that executors need."""
