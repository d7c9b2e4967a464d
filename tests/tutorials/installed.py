"""Any of our programs with the tutorial's process installed: `installed.py worker` or `installed.py gateway`.

What it does to the two registries is what a line in each of them does.
"""

from __future__ import annotations

import sys

from supplier_notice import NOTICE
from supplier_notice_workflow import SupplierNotice

from domain.processes import PROCESSES
from workflows.registry import WORKFLOWS

PROCESSES[NOTICE.name] = NOTICE
WORKFLOWS[NOTICE.name] = SupplierNotice

if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        import worker
        from settings import load_settings

        worker.start(load_settings())
    else:
        from gateway.__main__ import main

        main()
