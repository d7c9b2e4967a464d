"""LISTENS: triggers in, decisions and resolutions in, the state of runs out. It waits for neither CRM nor engine."""
