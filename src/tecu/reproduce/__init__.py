"""The tables and figures of the paper, run again."""
