"""How mypyc's C becomes one shared library: one C file a module, compiled on all cores, objects kept by content."""
