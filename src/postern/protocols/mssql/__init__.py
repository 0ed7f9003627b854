"""SQL Server and Azure SQL: Tabular Data Stream 7.1 to 8.0 ([MS-TDS])."""
