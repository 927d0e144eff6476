"""The metadata that every table belongs to, and the kinds of column they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    TypeDecorator,
)
from sqlalchemy.dialects.mysql import DOUBLE, MEDIUMTEXT

from yaffle.model.authz import DEFAULT_PROJECT

if TYPE_CHECKING:
    from sqlalchemy import Dialect
    from sqlalchemy.types import TypeEngine

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

SEQ: Final = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite counts by itself only in a column that is spelt INTEGER; and only with its AUTOINCREMENT
does it not give the number of a deleted last row to the next one."""

NUL: Final = "\0"


class Words(TypeDecorator[str]):
    """Text that every database can keep: what a backend says may hold anything, and be any length.

    PostgreSQL takes no NUL, and only SQLite takes more than there is room for; where a word is
    looked for, one that was cut or cleaned finds what was cut or cleaned likewise.
    """

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Cut to the column's length, and replace each NUL."""
        if value is None:
            return None
        if NUL in value:
            value = value.replace(NUL, "\ufffd")
        room: int | None = getattr(self.impl_instance, "length", None)
        return value if room is None or len(value) <= room else value[: room - 1] + "…"


class Document(Words):
    """Text of any length."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str]:
        """MariaDB's TEXT ends at 64 KB; documents may be longer."""
        mysql = dialect.name in {"mysql", "mariadb"}
        return dialect.type_descriptor(MEDIUMTEXT() if mysql else Text())


FLOAT: Final = Float().with_variant(DOUBLE(asdecimal=False), "mysql", "mariadb")
"""MariaDB's FLOAT ends after seven digits."""


def ident(name: str = "id") -> Column[str]:
    return Column(name, Words(36), primary_key=True)


def seq() -> Column[int]:
    return Column("seq", SEQ, primary_key=True, autoincrement=True)


def ref(name: str, *, index: bool = False) -> Column[str]:
    """Another object's id, or empty for none; not enforced."""
    return Column(name, Words(36), nullable=False, default="", index=index)


def ref_or_null(name: str, *, index: bool = False) -> Column[str]:
    return Column(name, Words(36), nullable=True, index=index)


def word(name: str, default: str | None = "", *, index: bool = False) -> Column[str]:
    """A name or one word of a closed enum."""
    return Column(name, Words(255), nullable=False, default=default, index=index)


def word_or_null(name: str) -> Column[str]:
    return Column(name, Words(255), nullable=True)


def text(name: str) -> Column[str]:
    return Column(name, Document(), nullable=False, default="")


def text_or_null(name: str) -> Column[str]:
    return Column(name, Document(), nullable=True)


def json(name: str) -> Column[object]:
    """An object; an empty one when left out."""
    return Column(name, JSON(none_as_null=True), nullable=False, default=dict)


def json_or_null(name: str) -> Column[object]:
    return Column(name, JSON(none_as_null=True), nullable=True)


def us(name: str, *, index: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=False, index=index)


def us_or_null(name: str, *, index: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=True, index=index)


def number(name: str, default: int) -> Column[int]:
    return Column(name, Integer, nullable=False, default=default)


def epoch(name: str = "epoch") -> Column[int]:
    """0 where nobody has ever held it."""
    return Column(name, BigInteger, nullable=False, default=0)


def flag(name: str, *, default: bool) -> Column[bool]:
    return Column(name, Boolean, nullable=False, default=default)


def owner() -> tuple[Column[str], ...]:
    """Whose it is: on every API object row from the first migration (design/engines)."""
    return (word("project", DEFAULT_PROJECT, index=True), word("user"), word("domain"))


def in_order() -> Index:
    """Return the index that lists of a project, the oldest first, are read by."""
    return Index(None, "project", "created_us", "id")
