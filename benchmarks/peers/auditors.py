"""``python auditors.py NAME SOURCE SAMPLES``: the pairs an outside auditor needs, as JSON lines.

Runs in the auditor's own environment, with nothing of ours; SOURCE is a checkout of its code, and
SAMPLES a folder of files with outputs, one per case. benchmarks/bench_audit_peers.py writes them
and reads the answers. The least number of pairs is looked for by bisection among 200, 400, ...
"""

import contextlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

RISK = 0.01


def sizes(most: int) -> list[int]:
    """The numbers of pairs that are tried."""
    return [200 * 2**k for k in range(20) if 200 * 2**k <= most]


def least(refutes: Callable[[int], bool], most: int) -> int:
    """The least size that refutes, by bisection; 0 if the largest does not."""
    tried = sizes(most)
    low, high = -1, len(tried)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(tried[middle]) else (middle, high)
    return tried[high] if high < len(tried) else 0


def hockey_stick(case: Any) -> Callable[[int], bool]:
    """dp-auditorium: its hockey-stick tester with its default model and training."""
    from dp_auditorium.configs import privacy_property, property_tester_config
    from dp_auditorium.testers import hockey_stick_tester as tester

    claim = privacy_property.ApproximateDp(float(case["epsilon"]), float(case["delta"]))

    def refutes(n: int) -> bool:
        config = property_tester_config.HockeyStickPropertyTesterConfig(
            tester.make_default_hs_training_config(), claim
        )
        audit = tester.HockeyStickPropertyTester(config, tester.make_default_hs_base_model())
        # It labels the second law 1 and asks whether a classifier beats e^eps/(1 + e^eps): that
        # is delta of the first law over the second.
        bound = audit.estimate_lower_bound(case["first"][:n], case["second"][:n], RISK)
        return bool(audit.reject_property(bound))

    return refutes


def histogram(case: Any) -> Callable[[int], bool]:
    """dp-auditorium: its histogram tester, for numbers; twenty bins over what is seen."""
    from dp_auditorium.configs import privacy_property, property_tester_config
    from dp_auditorium.testers import histogram_tester

    if case["first"].shape[1] > 1:
        return lambda n: False
    claim = privacy_property.ApproximateDp(float(case["epsilon"]), float(case["delta"]))

    def refutes(n: int) -> bool:
        first, second = case["first"][:n, 0], case["second"][:n, 0]
        ends = np.quantile(np.concatenate([first, second]), [0.005, 0.995])
        config = property_tester_config.HistogramPropertyTesterConfig(
            False, 20, float(ends[0]), float(max(ends[1], ends[0] + 1e-9)), claim
        )
        audit = histogram_tester.HistogramTester(config)
        return bool(audit.reject_property(audit.estimate_lower_bound(first, second, RISK)))

    return refutes


def sniper(case: Any) -> Callable[[int], bool]:
    """DP-Sniper with a classifier of its experiments; delta is subtracted from p.

    A third of the pairs trains, a third sets the threshold and a third measures.
    """
    from dpsniper.attack.dpsniper import DPSniper
    from dpsniper.classifiers.classifier_factory import (
        LogisticRegressionFactory,
        MultiLayerPerceptronFactory,
    )
    from dpsniper.classifiers.feature_transformer import BitPatternFeatureTransformer
    from dpsniper.classifiers.torch_optimizer_factory import (
        AdamOptimizerFactory,
        SGDOptimizerFactory,
    )
    from dpsniper.mechanisms.abstract import Mechanism
    from dpsniper.probability.binomial_cdf import lcb, ucb
    from dpsniper.search.ddconfig import DDConfig

    class Recorded(Mechanism):
        """Outputs that were drawn before, in order."""

        def __init__(self) -> None:
            self.used = {"first": 0, "second": 0}

        def m(self, a: str, n_samples: int = 1) -> np.ndarray:
            start = self.used[a]
            self.used[a] += n_samples
            return case[a][start : start + n_samples]

    def refutes(n: int) -> bool:
        third = n // 3
        config = DDConfig(n_train=third, n=third, n_check=200, n_final=200, n_processes=1,
                          training_batch_size=third, confidence=1.0 - RISK)  # fmt: skip
        recorded = Recorded()
        if case["low_bits"]:  # as in its experiment with floating-point numbers
            factory = MultiLayerPerceptronFactory(
                in_dimensions=64,
                hidden_sizes=(10, 5),
                optimizer_factory=AdamOptimizerFactory(learning_rate=0.1, step_size=500),
                feature_transform=BitPatternFeatureTransformer(),
                regularization_weight=0.0001,
                epochs=10,
            )
        else:
            optimizer = SGDOptimizerFactory(learning_rate=0.3, momentum=0.3, step_size=500)
            factory = LogisticRegressionFactory(
                in_dimensions=case["first"].shape[1],
                optimizer_factory=optimizer,
                regularization_weight=0.001,
                epochs=10,
            )
        attack = DPSniper(recorded, factory, config).best_attack("first", "second")
        recorded.used = {"first": 2 * third, "second": 2 * third}
        hits = [float(np.sum(attack.check(recorded.m(a, third)))) for a in ("first", "second")]
        p = lcb(third, int(hits[0]), RISK / 2.0)
        q = ucb(third, int(hits[1]), RISK / 2.0)
        return bool(p - float(case["delta"]) > np.exp(float(case["epsilon"])) * q)

    return refutes


def main() -> None:
    name, source, samples = sys.argv[1:]
    sys.path.insert(0, source)
    warnings.simplefilter("ignore")
    for part in ("generators", "mechanisms", "privacy_test_runner"):
        # They want Vizier and PipelineDP, and are not used here: the data sets are given.
        sys.modules[f"dp_auditorium.{part}"] = ModuleType(part)
    keep = sys.stdout
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as stack:
        if name == "sniper":
            from dpsniper.search.ddconfig import DDConfig
            from dpsniper.utils.initialization import initialize_dpsniper

            folder = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(initialize_dpsniper(DDConfig(n_processes=1), folder, 1))
        for file in sorted(Path(samples).glob("*.npz")):
            with np.load(file) as stored:
                case = dict(stored)
            refutes = globals()[name](case)
            found = least(refutes, len(case["first"]))
            print(json.dumps({"case": file.stem, "pairs": found}), file=keep, flush=True)


if __name__ == "__main__":
    main()
