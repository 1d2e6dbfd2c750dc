"""A model that learns has learned all of it or nothing: whatever breaks in on it, no part of another fit stays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

PAST = ("_online", "_energy")
"""What ``partial_fit`` goes on from."""


def all_or_nothing(learn: Method) -> Method:
    """A method that learns; after an error or Ctrl-C in it the model is what it was before.

    >>> class Model:
    ...     @all_or_nothing
    ...     def fit(self, X):
    ...         self.n_features_in_ = len(X[0])
    ...         self.components_ = 1 / X[0][0]
    >>> model = Model()
    >>> model.fit([[0, 0]])
    Traceback (most recent call last):
    ZeroDivisionError: division by zero
    >>> vars(model)
    {}
    """

    @functools.wraps(learn)
    def whole(model: Any, *args: Any, **kwargs: Any) -> Any:
        before = _learned(model)
        try:
            return learn(model, *args, **kwargs)
        except BaseException:
            for name in _learned(model):
                delattr(model, name)
            vars(model).update(before)
            raise

    return whole  # type: ignore[return-value]  # it has the signature of ``learn``


def _learned(model: Any) -> dict[str, Any]:
    """What was learned, by scikit-learn's rule that such names end in an underscore; parameters are the user's."""
    return {name: value for name, value in vars(model).items() if name.endswith("_") or name in PAST}
