"""The public names, each with its home: `__init__.py` imports them from there on first use."""

from ndis import testing as testing
from ndis.auditing import Verdict as Verdict
from ndis.auditing import audit as audit
from ndis.auditing import audit_pair as audit_pair
from ndis.auditing import audit_samples as audit_samples
from ndis.auditing.certificates import verify as verify
from ndis.chi_square import GeneralizedChiSquare as GeneralizedChiSquare
from ndis.gaussian import Gaussian as Gaussian
from ndis.gaussian import monte_carlo_delta as monte_carlo_delta
from ndis.gaussian import privacy_loss as privacy_loss
from ndis.gaussian import profile as profile
from ndis.guarantee import Guarantee as Guarantee
from ndis.guarantee import NeighbourRelation as NeighbourRelation
from ndis.ledger import BudgetExceeded as BudgetExceeded
from ndis.ledger import Ledger as Ledger
from ndis.loss import DiscreteLaplaceLoss as DiscreteLaplaceLoss
from ndis.loss import LeastSquaresLoss as LeastSquaresLoss
from ndis.loss import PrivacyLoss as PrivacyLoss
from ndis.loss import Profile as Profile
from ndis.loss import QuadraticLoss as QuadraticLoss
from ndis.loss import SphericalLoss as SphericalLoss
from ndis.loss import TabulatedLoss as TabulatedLoss
from ndis.mechanisms import Plan as Plan
from ndis.mechanisms.additive import GaussianMechanism as GaussianMechanism
from ndis.mechanisms.additive import MatrixGaussianMechanism as MatrixGaussianMechanism
from ndis.mechanisms.additive import NoiseMechanism as NoiseMechanism
from ndis.mechanisms.classification import PrivateLogisticRegression as PrivateLogisticRegression
from ndis.mechanisms.counts import PrivatePoissonRegression as PrivatePoissonRegression
from ndis.mechanisms.graph import PrivateGraph as PrivateGraph
from ndis.mechanisms.limits import PrivateLimits as PrivateLimits
from ndis.mechanisms.moments import PrivateCovariance as PrivateCovariance
from ndis.mechanisms.moments import PrivatePCA as PrivatePCA
from ndis.mechanisms.multiparty.joint_regression import MultiPartyRegression as MultiPartyRegression
from ndis.mechanisms.posterior import GaussianOutput as GaussianOutput
from ndis.mechanisms.private_levels import PrivateLevels as PrivateLevels
from ndis.mechanisms.processes import PrivateGaussianProcess as PrivateGaussianProcess
from ndis.mechanisms.projection import PrivateProjection as PrivateProjection
from ndis.mechanisms.regression import PrivateLeastSquares as PrivateLeastSquares
from ndis.mechanisms.sketch import Sketch as Sketch
from ndis.mechanisms.summary import PrivateSummary as PrivateSummary
from ndis.release import Release as Release
from ndis.risk import Risk as Risk

__version__: str
