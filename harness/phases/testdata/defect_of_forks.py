# /// scenario
# summary = "a known defect that only forked processes show"
# adapters = ["plain_python"]
# [model]
# norm = [8]
# [optimizer]
# name = "sgd"
# [run]
# gradients = "order_free"
# save_after = 2
# train_until = 3
# [[resume]]
# from = "dp2"
# onto = ["dp2"]
# [compare]
# parts = ["param", "moment1", "step", "lr"]
# [[known_broken]]
# when = "adapter == 'plain_python'"
# symptom = "load: no such luck"
# origin = "owner/repo#1"
# ///
"""What a fresh start does not show is no confirmation of the known defect."""

import sys


def load(original, run, folder) -> None:
    if "--once" not in sys.argv:
        raise RuntimeError("no such luck")
    original(folder)
