-- Database and users, once, as root: mariadb < create.sql. Replace PASSWORD, and the network by your own.
-- Then: yaffle db migrate --database mariadb://yaffle:…@db.example.org/yaffle
-- MariaDB 10.6 or newer; MySQL cannot throw out a writer that was frozen, and is refused.

-- Names that differ in case, accents or a blank at the end are different names.
CREATE DATABASE yaffle CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- CREATE, ALTER, DROP, INDEX and REFERENCES are for `yaffle db migrate`.
CREATE USER yaffle@'10.0.0.%' IDENTIFIED BY 'PASSWORD' REQUIRE SSL WITH MAX_USER_CONNECTIONS 100;
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES ON yaffle.* TO yaffle@'10.0.0.%';

-- For `mariadb-dump` alone: reads, and locks nothing with --single-transaction.
CREATE USER yafflebackup@'10.0.0.%' IDENTIFIED BY 'PASSWORD' REQUIRE SSL WITH MAX_USER_CONNECTIONS 2;
GRANT SELECT, SHOW VIEW, TRIGGER, LOCK TABLES ON yaffle.* TO yafflebackup@'10.0.0.%';
