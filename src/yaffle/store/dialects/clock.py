"""The database's own clock as an SQL expression: leases know no other (design/engines)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler


class now_us(FunctionElement[int]):  # noqa: N801 - reads as the SQL function it is
    """The time at this statement, µs UTC; it goes on within a transaction."""

    type = BigInteger()
    inherit_cache = True


@compiles(now_us, "sqlite")
def _now_sqlite(_element: now_us, _compiler: SQLCompiler, **_kw: object) -> str:
    return "yaffle_now_us()"


@compiles(now_us, "postgresql")
def _now_postgresql(_element: now_us, _compiler: SQLCompiler, **_kw: object) -> str:
    # clock_timestamp(), not now(): the latter stands still for the whole transaction.
    return "(extract(epoch from clock_timestamp()) * 1000000)::bigint"


@compiles(now_us, "mysql", "mariadb")
def _now_mysql(_element: now_us, _compiler: SQLCompiler, **_kw: object) -> str:
    # SYSDATE(), not UTC_TIMESTAMP(): the latter stands still within a statement that waited for a
    # lock. Every session is set to UTC; UNIX_TIMESTAMP() would lose the microseconds.
    return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', SYSDATE(6))"
