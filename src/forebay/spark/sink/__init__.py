"""Writes rows as messages: tasks stage blocks of rows, and the driver's commit publishes the blocks once."""
