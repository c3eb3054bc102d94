# ruff: noqa: F401  the calls use what is imported
"""scikit-learn and SciPy over tensors, by array API dispatch: as over NumPy's arrays.

Run with SCIPY_ARRAY_API=1, which SciPy reads as it is imported, and as `python dispatched.py weft`
or `weft run dispatched.py torch`. Prints the calls that differ, and how many agree.
"""

import importlib
import sys
import warnings

import numpy as np
import scipy.cluster
import scipy.fft
import scipy.integrate
import scipy.signal
import scipy.special
import scipy.stats
from sklearn import config_context, metrics, mixture, naive_bayes, preprocessing
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.metrics import pairwise
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

T = importlib.import_module(sys.argv[1])

# X a matrix, P the same above 0, y classes, z others, t targets, u others above 0, p probabilities.
CALLS = """\
abs(PCA(3, svd_solver="full").fit_transform(X))
abs(PCA(3, svd_solver="covariance_eigh").fit_transform(X))
PCA(3, svd_solver="randomized", power_iteration_normalizer="QR", random_state=0).fit(X).mean_
abs(PCA(3, svd_solver="full", whiten=True).fit_transform(X))
LinearDiscriminantAnalysis().fit(X, y).predict_proba(X)
Ridge(solver="svd").fit(X, t).predict(X)
naive_bayes.GaussianNB().fit(X, y).predict_proba(X)
mixture.GaussianMixture(2, init_params="random", random_state=0).fit(X).score_samples(X)
make_pipeline(preprocessing.StandardScaler(), LinearDiscriminantAnalysis()).fit(X, y).predict(X)
train_test_split(X, random_state=0)[1]
preprocessing.StandardScaler().fit_transform(X)
preprocessing.MinMaxScaler().fit_transform(X)
preprocessing.MaxAbsScaler().fit_transform(X)
preprocessing.Normalizer().fit_transform(X)
preprocessing.Binarizer().fit_transform(X)
preprocessing.PolynomialFeatures().fit_transform(X)
preprocessing.LabelEncoder().fit_transform(y)
preprocessing.LabelBinarizer().fit_transform(y)
metrics.accuracy_score(y, z)
metrics.f1_score(y, z)
metrics.precision_score(y, z)
metrics.recall_score(y, z)
metrics.confusion_matrix(y, z)
metrics.brier_score_loss(y, p)
metrics.r2_score(u, t)
metrics.mean_squared_error(u, t)
metrics.mean_absolute_error(u, t)
metrics.explained_variance_score(u, t)
metrics.max_error(u, t)
pairwise.cosine_similarity(X)
pairwise.euclidean_distances(X)
pairwise.rbf_kernel(X)
pairwise.laplacian_kernel(X)
pairwise.chi2_kernel(P)
scipy.special.gammaln(u)
scipy.special.erf(t)
scipy.special.ndtri(p)
scipy.special.betainc(u, u, p)
scipy.special.gammainc(u, u)
scipy.special.xlogy(u, u)
scipy.special.logsumexp(X, axis=1)
scipy.special.softmax(X, axis=0)
scipy.special.digamma(u)
scipy.special.log_ndtr(t)
abs(scipy.fft.fft(t))
scipy.fft.irfft(scipy.fft.rfft(t))
abs(scipy.fft.fftn(X))
scipy.fft.dct(t)
scipy.fft.fftshift(X)
scipy.stats.skew(X, axis=0)
scipy.stats.kurtosis(t)
scipy.stats.gmean(u)
scipy.stats.zscore(X)
scipy.stats.entropy(p)
scipy.stats.variation(u)
scipy.stats.iqr(t)
scipy.stats.rankdata(t)
scipy.stats.describe(t).variance
scipy.stats.ttest_ind(t, u).pvalue
scipy.stats.ttest_1samp(t, 0.5).statistic
scipy.stats.pearsonr(t, u).statistic
scipy.stats.spearmanr(t, u).statistic
scipy.stats.f_oneway(t, u).pvalue
scipy.stats.mannwhitneyu(t, u).pvalue
scipy.stats.wilcoxon(t).pvalue
scipy.stats.chisquare(u).statistic
scipy.stats.false_discovery_control(p)
scipy.stats.jarque_bera(t).pvalue
scipy.integrate.trapezoid(t)
scipy.integrate.cumulative_trapezoid(t)
scipy.signal.fftconvolve(t, u)
scipy.signal.detrend(t)
scipy.cluster.vq.whiten(X)
scipy.cluster.hierarchy.linkage(X)"""


def operands(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(np.int64)
    arrays = {
        "X": X, "P": np.abs(X), "y": y, "z": np.roll(y, 3), "t": X @ np.arange(5.0),
        "u": np.abs(X[:, 1]) + 0.1, "p": rng.random(60),
    }  # fmt: skip
    return {name: make(array) for name, array in arrays.items()}


def outcome(call, make, dispatch):
    with warnings.catch_warnings(), config_context(array_api_dispatch=dispatch):
        warnings.simplefilter("ignore")
        return eval(call, globals() | operands(make))  # noqa: S307


def main():
    calls = CALLS.splitlines()
    agree = tensors = 0
    for call in calls:
        expected = outcome(call, np.asarray, False)
        try:
            found = outcome(call, T.from_numpy, True)
        except Exception as error:  # noqa: BLE001
            print(f"{call}: {type(error).__name__}: {error}")
            continue
        tensors += isinstance(found, T.Tensor)
        if np.allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-8):
            agree += 1
        else:
            print(f"{call}: {found} for {expected}")
    print(f"{agree} of {len(calls)} calls agree, {tensors} give tensors")


if __name__ == "__main__":
    main()
