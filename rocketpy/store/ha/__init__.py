"""Replication of the log from a master to its slaves, on RocketMQ's wire."""
