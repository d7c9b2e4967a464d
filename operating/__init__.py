"""OBSERVES: log fields, metrics, traces and health that every process of ours reports in the same words."""
