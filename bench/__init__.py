"""The side-by-side benchmark: the Java broker and ours, same machine, same run. Start it with ``python -m bench``."""
