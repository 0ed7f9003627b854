"""PostgreSQL's functions and operators whose result depends on their arguments alone.

From `pg_proc.dat` and `pg_operator.dat` (15 to 18): all immutable ones in common use, and those that read the clock,
random numbers, sequences, or names and definitions in the catalogue. Functions are left out on purpose if they run a
query from a text, or read files, large objects, statistics or other sessions' statements. So is everything of later
versions: their result is unknown.
"""

from __future__ import annotations

from typing import Final

_FUNCTIONS: Final = """
    abbrev abs acldefault aclexplode acos acosd acosh age any_value area
    array_agg array_append array_cat array_dims array_fill
    array_length array_lower array_ndims array_position array_positions array_prepend array_remove array_replace
    array_reverse array_sample array_shuffle array_sort array_to_json array_to_string array_to_tsvector array_upper
    ascii asin asind asinh atan atan2 atan2d atand atanh avg bit bit_and bit_count bit_length bit_or bit_xor bool
    bool_and bool_or bound_box box bpchar broadcast btrim cardinality casefold cbrt ceil ceiling center char
    char_length character_length chr cidr circle clock_timestamp col_description concat concat_ws convert
    convert_from convert_to corr cos cosd cosh cot cotd count covar_pop covar_samp crc32 crc32c cume_dist
    current_database current_schema current_schemas current_user currval date date_add date_bin date_part
    date_subtract date_trunc datemultirange daterange decode degrees dense_rank diagonal diameter div encode
    enum_first enum_last enum_range erf erfc every exp extract factorial family first_value float4 float8 floor
    format format_type gamma gcd gen_random_uuid generate_series generate_subscripts get_bit get_byte
    get_current_ts_config getdatabaseencoding getpgusername has_any_column_privilege has_column_privilege
    has_database_privilege has_foreign_data_wrapper_privilege has_function_privilege has_language_privilege
    has_parameter_privilege has_schema_privilege has_sequence_privilege has_server_privilege has_table_privilege
    has_tablespace_privilege has_type_privilege height host hostmask inet_client_addr inet_client_port inet_merge
    inet_same_family inet_server_addr inet_server_port initcap int2 int4 int4multirange int4range int8
    int8multirange int8range interval is_normalized isclosed isempty isfinite ishorizontal isopen isparallel isperp
    isvertical json_agg json_agg_strict json_array_elements json_array_elements_text json_array_length
    json_build_array json_build_object json_each json_each_text json_extract_path json_extract_path_text json_object
    json_object_agg json_object_agg_strict json_object_agg_unique json_object_agg_unique_strict json_object_keys
    json_populate_record json_populate_recordset json_strip_nulls json_to_record json_to_recordset json_to_tsvector
    json_typeof jsonb_agg jsonb_agg_strict jsonb_array_elements jsonb_array_elements_text jsonb_array_length
    jsonb_build_array jsonb_build_object jsonb_concat jsonb_delete jsonb_delete_path jsonb_each jsonb_each_text
    jsonb_exists jsonb_exists_all jsonb_exists_any jsonb_extract_path jsonb_extract_path_text jsonb_insert
    jsonb_object jsonb_object_agg jsonb_object_agg_strict jsonb_object_agg_unique jsonb_object_agg_unique_strict
    jsonb_object_keys jsonb_path_exists jsonb_path_exists_tz jsonb_path_match jsonb_path_match_tz jsonb_path_query
    jsonb_path_query_array jsonb_path_query_array_tz jsonb_path_query_first jsonb_path_query_first_tz
    jsonb_path_query_tz jsonb_populate_record jsonb_populate_recordset jsonb_pretty jsonb_set jsonb_set_lax
    jsonb_strip_nulls jsonb_to_record jsonb_to_recordset jsonb_to_tsvector jsonb_typeof justify_days justify_hours
    justify_interval lag last_value lastval lcm lead left length lgamma like like_escape line ln log log10 lower
    lower_inc lower_inf lpad lseg ltrim macaddr macaddr8 macaddr8_set7bit make_date make_interval make_time
    make_timestamp make_timestamptz masklen max md5 min min_scale mod mode money multirange mxid_age name netmask
    network nextval normalize notlike now npoints nth_value ntile num_nonnulls num_nulls numeric nummultirange
    numnode numrange obj_description octet_length oid oidvectortypes overlaps overlay parse_ident path pclose
    percent_rank percentile_cont percentile_disc pg_advisory_lock pg_advisory_lock_shared pg_advisory_unlock
    pg_advisory_unlock_all pg_advisory_unlock_shared pg_advisory_xact_lock pg_advisory_xact_lock_shared
    pg_backend_pid pg_blocking_pids pg_cancel_backend pg_char_to_encoding pg_client_encoding pg_collation_for
    pg_collation_is_visible pg_column_compression pg_column_is_updatable pg_column_size pg_conf_load_time
    pg_conversion_is_visible pg_current_snapshot pg_current_wal_flush_lsn pg_current_wal_insert_lsn
    pg_current_wal_lsn pg_current_xact_id pg_current_xact_id_if_assigned pg_database_size pg_describe_object
    pg_encoding_to_char pg_function_is_visible pg_get_constraintdef pg_get_expr pg_get_function_arg_default
    pg_get_function_arguments pg_get_function_identity_arguments pg_get_function_result pg_get_function_sqlbody
    pg_get_functiondef pg_get_indexdef pg_get_keywords pg_get_partition_constraintdef pg_get_partkeydef
    pg_get_ruledef pg_get_serial_sequence pg_get_statisticsobjdef pg_get_statisticsobjdef_columns
    pg_get_statisticsobjdef_expressions pg_get_triggerdef pg_get_userbyid pg_get_viewdef pg_has_role pg_indexes_size
    pg_input_is_valid pg_is_in_recovery pg_is_other_temp_schema pg_is_wal_replay_paused pg_last_wal_receive_lsn
    pg_last_wal_replay_lsn pg_last_xact_replay_timestamp pg_my_temp_schema pg_notify pg_opclass_is_visible
    pg_operator_is_visible pg_opfamily_is_visible pg_options_to_table pg_partition_ancestors pg_partition_root
    pg_partition_tree pg_postmaster_start_time pg_relation_is_publishable pg_relation_is_updatable pg_relation_size
    pg_sequence_parameters pg_size_bytes pg_size_pretty pg_sleep pg_sleep_for pg_sleep_until pg_snapshot_xip
    pg_snapshot_xmax pg_snapshot_xmin pg_statistics_obj_is_visible pg_table_is_visible pg_table_size
    pg_tablespace_location pg_tablespace_size pg_terminate_backend pg_timezone_abbrevs pg_timezone_names
    pg_total_relation_size pg_trigger_depth pg_try_advisory_lock pg_try_advisory_lock_shared
    pg_try_advisory_xact_lock pg_try_advisory_xact_lock_shared pg_ts_config_is_visible pg_ts_dict_is_visible
    pg_ts_parser_is_visible pg_ts_template_is_visible pg_type_is_visible pg_typeof pg_visible_in_snapshot
    pg_wal_lsn_diff pg_xact_status phraseto_tsquery pi plainto_tsquery point polygon popen position pow power
    querytree quote_ident quote_literal quote_nullable radians radius random random_normal range_agg
    range_intersect_agg range_merge rank regclass regexp_count regexp_instr regexp_like regexp_match regexp_matches
    regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right round row_number
    row_security_active row_to_json rpad rtrim scale session_user set_bit set_byte set_config set_masklen setseed
    setval setweight sha224 sha256 sha384 sha512 shobj_description sign similar_escape similar_to_escape sin sind
    sinh slope split_part sqrt starts_with statement_timestamp stddev stddev_pop stddev_samp string_agg
    string_to_array string_to_table strip strpos substr substring sum tan tand tanh text time timeofday timestamp
    timestamptz timetz timezone to_ascii to_bin to_char to_date to_hex to_json to_jsonb to_number to_oct to_regclass
    to_regcollation to_regnamespace to_regoper to_regoperator to_regproc to_regprocedure to_regrole to_regtype
    to_timestamp to_tsquery to_tsvector transaction_timestamp translate trim_array trim_scale trunc ts_delete
    ts_filter ts_headline ts_lexize ts_rank ts_rank_cd tsmultirange tsquery_phrase tsrange tstzmultirange tstzrange
    tsvector_to_array txid_current txid_current_if_assigned txid_current_snapshot txid_snapshot_xip
    txid_snapshot_xmax txid_snapshot_xmin txid_status txid_visible_in_snapshot unicode_assigned unistr unnest upper
    upper_inc upper_inf uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7 var_pop var_samp varbit varchar
    variance version websearch_to_tsquery width width_bucket xid xid8 xml xml_is_well_formed
    xml_is_well_formed_content xml_is_well_formed_document xmlagg xmlcomment xmlconcat2 xmlexists xpath xpath_exists
"""
FUNCTIONS: Final = frozenset(_FUNCTIONS.split())


_OPERATORS: Final = """
    !! !~ !~* !~~ !~~* # ## #- #> #>> % & && &< &<| &> * *< *<= *<> *= *> *>= + - -> ->> -|- / < <-> << <<= <<| <=
    <> <@ <^ = > >= >> >>= >^ ? ?# ?& ?- ?-| ?| ?|| @ @-@ @> @? @@ @@@ ^ ^@ | |&> |/ |>> || ||/ ~ ~* ~<=~ ~<~ ~=
    ~>=~ ~>~ ~~ ~~*
"""
OPERATORS: Final = frozenset(_OPERATORS.split())

# In FROM, these return other columns than one of their own name.
_RECORDS: Final = """
    json_each json_each_text json_populate_record json_populate_recordset json_to_record json_to_recordset
    jsonb_each jsonb_each_text jsonb_populate_record jsonb_populate_recordset jsonb_to_record jsonb_to_recordset
    pg_get_keywords pg_options_to_table pg_partition_tree pg_sequence_parameters pg_timezone_abbrevs
    pg_timezone_names unnest
"""
RECORDS: Final = frozenset(_RECORDS.split())

# The columns that some of those return.
COLUMNS: Final = {
    "json_each": ("key", "value"),
    "json_each_text": ("key", "value"),
    "jsonb_each": ("key", "value"),
    "jsonb_each_text": ("key", "value"),
    "json_array_elements": ("value",),
    "json_array_elements_text": ("value",),
    "jsonb_array_elements": ("value",),
    "jsonb_array_elements_text": ("value",),
}

# Columns of the catalogue that contain values of tables, or other sessions' queries; None stands for all columns.
QUOTING: Final[dict[str, frozenset[str] | None]] = {
    "pg_cursors": None,
    "pg_largeobject": None,
    "pg_largeobject_metadata": frozenset({"oid"}),
    "pg_locks": frozenset({"classid", "objid"}),
    "pg_prepared_statements": None,
    "pg_replication_origin": frozenset({"roname"}),
    "pg_replication_slots": frozenset({"slot_name"}),
    "pg_settings": frozenset({"setting", "reset_val"}),
    "pg_stat_activity": frozenset({"query", "application_name"}),
    "pg_stat_replication": frozenset({"application_name"}),
    "pg_statistic": None,
    "pg_statistic_ext_data": None,
    "pg_stats": None,
    "pg_stats_ext": None,
    "pg_stats_ext_exprs": None,
}

# Settings that cannot store a value of a table: they accept a few words only, or nothing. Any other can store at least
# a number.
_WORDED: Final = """
    bytea_output client_encoding client_min_messages datestyle default_transaction_deferrable
    default_transaction_isolation default_transaction_read_only in_hot_standby integer_datetimes intervalstyle
    is_superuser jit lc_collate lc_ctype lc_messages lc_monetary lc_numeric lc_time max_identifier_length row_security
    server_encoding server_version server_version_num standard_conforming_strings transaction_deferrable
    transaction_isolation transaction_read_only wal_level
"""
WORDED_SETTINGS: Final = frozenset(_WORDED.split())

# Functions whose result contains the session's time zone, which can have any name.
ZONED: Final = frozenset({"timeofday", "to_char"})
