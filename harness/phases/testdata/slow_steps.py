# /// scenario
# summary = "a run slow enough to be disturbed at any moment of it"
# adapters = ["plain_python"]
# [model]
# norm = [8]
# [optimizer]
# name = "sgd"
# [run]
# gradients = "order_free"
# save_after = 2
# train_until = 4
# [[resume]]
# from = "dp2"
# onto = ["dp2", "dp1", "rep2"]
# [compare]
# parts = ["param", "moment1", "step", "lr"]
# ///
"""Every step takes a moment, so that a signal sent after a file has appeared arrives in time."""

import time

STEP_SECONDS = 0.15


def step(original, run, number: int) -> None:
    time.sleep(STEP_SECONDS)
    original(number)
