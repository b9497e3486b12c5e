"""Measurements that anyone can repeat: each prints a table, writes bench/results/NAME.json and fails where it must."""
