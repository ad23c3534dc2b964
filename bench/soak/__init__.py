"""Our clients and brokers as processes under faults for minutes: ``python -m bench.soak``."""
