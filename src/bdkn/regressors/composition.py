"""Named estimators as a parameter, with the parameters of each as parameters too."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import is_classifier
from sklearn.utils import Bunch, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import _BaseComposition

from bdkn.errors import InvalidParameterError
from bdkn.members import check_model

Pair = tuple[str, Any]


class NamedEstimators(_BaseComposition):  # type: ignore[misc]
    """What ``estimators``, a list of (name, estimator) pairs, brings along in scikit-learn; "drop" leaves one out."""

    estimators: list[Pair] | None
    cv: Any

    @property
    def named_estimators(self) -> Bunch:
        """The estimators by name, as they were given."""
        return Bunch(**dict(self.estimators or []))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters and, if ``deep``, the estimators by name and their parameters as name__parameter."""
        params: dict[str, Any] = self._get_params("estimators", deep=deep)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, a parameter of an estimator as name__parameter, or an estimator by its name."""
        self._set_params("estimators", **params)
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Return who asks for what of the metadata that ``fit`` is given."""
        router = MetadataRouter(owner=self).add_self_request(self)
        if self.cv == "prefit":
            return router
        for name, model in self._in_use():
            if hasattr(model, "get_metadata_routing"):
                router.add(**{name: model}, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        if hasattr(self.cv, "get_metadata_routing"):
            router.add(cv=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        return router

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        models = [model for _, model in self._in_use() if hasattr(model, "__sklearn_tags__")]
        inputs = [get_tags(model).input_tags for model in models]
        tags.input_tags.allow_nan = bool(inputs) and all(one.allow_nan for one in inputs)
        tags.input_tags.sparse = bool(inputs) and all(one.sparse for one in inputs)
        return tags

    def _in_use(self) -> list[Pair]:
        """Return the pairs that are not dropped."""
        pairs = self.estimators if isinstance(self.estimators, list) else []
        return [pair for pair in pairs if not isinstance(pair[1], str)]

    def _check_estimators(self) -> None:
        """Raise unless the estimators can be members, each under a name of its own."""
        given = self.estimators
        if given is None:
            return
        pairs = isinstance(given, list) and all(isinstance(p, tuple | list) and len(p) == 2 for p in given)
        if not (given and pairs and all(isinstance(name, str) for name, _ in given)):
            raise InvalidParameterError(f"estimators must be a list of (name, estimator) pairs or None; got {given!r}")
        self._validate_names([name for name, _ in given])
        if all(isinstance(model, str) and model == "drop" for _, model in given):
            raise InvalidParameterError("estimators must hold one that is not 'drop'; got only such")
        for name, model in given:
            if not (isinstance(model, str) and model == "drop"):
                check_model(model, name)
            if hasattr(model, "__sklearn_tags__") and is_classifier(model):
                raise InvalidParameterError(f"member {name!r} must predict numbers; got the classifier {model!r}")
