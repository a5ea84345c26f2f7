"""Tasks of the panel (``benchmarks/panel.py``), one module each.

To add a task, write a module with the names of :class:`_panel.common.Task` and enter it in ``TASKS``.
"""

TASKS = ("extract", "weak", "transfer", "induce", "align")
