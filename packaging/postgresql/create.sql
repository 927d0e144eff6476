-- Role and database, once, as a superuser; the password comes from the environment:
--
--   YAFFLE_PASSWORD=… psql -d postgres -v ON_ERROR_STOP=1 -f create.sql
--
-- Then, from a machine of Yaffle's: yaffle db migrate --database postgresql://yaffle:…@db.example.org/yaffle
\getenv password YAFFLE_PASSWORD

-- It owns its database and nothing else. Five connections for each engine and each API, and one for a
-- command: 100 are room for 18 processes.
CREATE ROLE yaffle LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS
    CONNECTION LIMIT 100 PASSWORD :'password';

-- UTF8: names may hold any character; another encoding is refused at the start.
-- C: what is equal and what comes first is decided by bytes, as on SQLite, and does not change with the
-- next release of the system's C library, which would break indexes. template0 allows both.
CREATE DATABASE yaffle OWNER yaffle ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0;

REVOKE ALL ON DATABASE yaffle FROM PUBLIC;
-- For other programs that come as this role. Yaffle itself sets stricter ones with every transaction.
ALTER ROLE yaffle IN DATABASE yaffle SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE yaffle IN DATABASE yaffle SET statement_timeout = '60s';

-- For `pg_dump` alone: it reads everything and writes nothing. It takes longer than a minute.
CREATE ROLE yafflebackup LOGIN NOSUPERUSER CONNECTION LIMIT 2 PASSWORD :'password';
GRANT CONNECT ON DATABASE yaffle TO yafflebackup;
GRANT pg_read_all_data TO yafflebackup;

\connect yaffle
REVOKE ALL ON SCHEMA public FROM PUBLIC;
ALTER SCHEMA public OWNER TO yaffle;
