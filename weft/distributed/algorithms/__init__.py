"""Algorithms over the processes of a group, of which there is one."""
