"""Of mypyc's library that which executors need."""
