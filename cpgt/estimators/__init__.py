"""Estimators with scikit-learn's conventions, for several parties inside one process."""

from cpgt.estimators.classification import LogisticRegression
from cpgt.estimators.regression import HuberRegressor, PoissonRegressor, Ridge
from cpgt.estimators.report import Report

__all__ = ["HuberRegressor", "LogisticRegression", "PoissonRegressor", "Report", "Ridge"]
