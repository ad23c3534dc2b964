"""Inner loops over bytes, in the style that mypyc makes plain C of: a module for each format, with a drawing of it.

Compiled they take the place of a general path where what they meet is common; as plain Python they would be slower, and
the general path is taken (``BUILD.has_kernels``). That path is the definition: a kernel does the same or says that it
does not, and tests hold the two together. A kernel keeps nothing that outlives the connection or burst it serves.

Numbers are of fixed size here, constants are ``Final``, and nothing is looked up in a loop.
"""
