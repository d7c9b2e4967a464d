"""MEASURES: figures side by side in one run, printed whatever they are, never asserted."""
