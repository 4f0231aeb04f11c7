"""Rows as messages: tasks stage blocks of them, and the driver's commit publishes these, once."""
