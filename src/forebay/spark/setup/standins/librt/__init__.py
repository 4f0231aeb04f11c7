"""The part of mypyc's library that executors need."""
