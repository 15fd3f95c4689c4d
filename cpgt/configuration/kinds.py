"""Sections that choose a kind: a discriminated union for each, built from a family's registry.

A registry maps the name of a kind to its factory. The factory's parameters, with their type hints
and bounds (`Annotated[int, Bounds(ge=1)]`), are the options that the network file may give. A text
in a hint, `Annotated[int, "Rows of A."]`, is the meaning of the option in docs/network-file.md.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    GetCoreSchemaHandler,
    SerializerFunctionWrapHandler,
    Tag,
    create_model,
    model_serializer,
)
from pydantic_core import CoreSchema

from cpgt.extensions import is_extension

TAG = "kind="  # marks the step of an error's path that is a choice and no key of the file


class Section(BaseModel):
    """A table of the network file."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class KindSection(Section):
    """A kind, with the options of that kind beside it, of which nothing is known here."""

    model_config = ConfigDict(extra="allow", strict=True)
    kind: str
    option_names: ClassVar[frozenset[str]] = frozenset()

    @property
    def options(self) -> dict[str, Any]:
        """The options that were given; those left at their defaults are not among them."""
        names = self.option_names | set(self.model_extra or ())
        return {name: value for name, value in self if name in names & self.model_fields_set}

    @model_serializer(mode="wrap")
    def _as_given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the options that were not given, so that it reads like the file."""
        unset = self.option_names - self.model_fields_set
        return {name: value for name, value in serialize(self).items() if name not in unset}


AnySection = TypeVar("AnySection", bound=KindSection)


class Kinds(Generic[AnySection]):
    """The kinds of a section. Annotates a subclass of KindSection, which has the common keys.

    `given` are parameters of the factories that do not come from the file. With `section`, kinds
    that are not built in may be named, with options of which nothing is known here.
    """

    def __init__(
        self,
        base: type[AnySection],
        registry: Mapping[str, Callable[..., Any]],
        given: Collection[str] = (),
        section: str | None = None,
    ) -> None:
        self.base = base
        self.registry = registry
        self._section = section
        self.models = {kind: self._model(kind, given) for kind in registry}

    def _model(self, kind: str, given: Collection[str]) -> type[AnySection]:
        options = options_of(self.registry[kind], {*self.base.model_fields, *given})
        default = kind if self.base.model_fields["kind"].default == kind else ...
        fields: Any = {"kind": (Literal[kind], default), **options}
        model = create_model(kind, __base__=self.base, __cls_kwargs__={"extra": "forbid"}, **fields)
        model.option_names = frozenset(options)
        return model

    def section(self, kind: str, **keys: Any) -> AnySection:
        """A section made in Python, checked as one of a file is."""
        return self.models[kind].model_validate({"kind": kind, **keys})

    def keys(self, kind: str) -> list[str]:
        """The keys that a section of this kind may have, besides `kind`."""
        model = self.models.get(kind, self.base)
        return [name for name in model.model_fields if name != "kind"]

    def __get_pydantic_core_schema__(
        self, _source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        tagged: list[Any] = [
            Annotated[model, Tag(TAG + kind)] for kind, model in self.models.items()
        ]
        if self._section:
            tagged.append(Annotated[self.base, Tag(TAG)])
        union = reduce(or_, tagged)
        return handler.generate_schema(Annotated[union, Discriminator(self._tag)])

    def _tag(self, section: Any) -> str | None:
        if isinstance(section, Mapping):
            kind = section.get("kind", self.base.model_fields["kind"].get_default())
        else:
            kind = getattr(section, "kind", None)
        if not isinstance(kind, str):
            return None
        own = self._section and is_extension(self._section, kind, self.registry)
        return TAG if own else TAG + kind


def options_of(factory: Callable[..., Any], given: Collection[str]) -> dict[str, tuple[Any, Any]]:
    """Name -> type and default of each parameter that is not `given`."""
    hints = typing.get_type_hints(factory, include_extras=True)
    parameters = inspect.signature(factory).parameters.values()
    return {
        one.name: (hints[one.name], ... if one.default is one.empty else one.default)
        for one in parameters
        if one.name not in given
    }
