# /// scenario
# summary = "a known defect that every process shows"
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
# onto = ["dp2", "dp1"]
# [compare]
# parts = ["param", "moment1", "step", "lr"]
# [[known_broken]]
# when = "adapter == 'plain_python'"
# symptom = "load: no such luck"
# origin = "owner/repo#1"
# ///
"""What a fresh start shows too is confirmed."""


def load(original, run, folder) -> None:
    raise RuntimeError("no such luck")
