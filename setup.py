"""Compiles the hot path with mypyc where a C compiler is at hand; the same files run as plain Python otherwise.

Set POSTERN_COMPILE=0 to leave it out, POSTERN_COMPILE=1 to fail where it cannot be done.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

HOT = [
    "inspection/guardrails/guardrail_findings.py",
    "inspection/guardrails/guardrail_interceptor.py",
    "inspection/guardrails/guardrail_rules.py",
    "inspection/guardrails/guardrail_texts.py",
    "inspection/masking/kinds/card.py",
    "inspection/masking/kinds/iban.py",
    "inspection/masking/samples.py",
    "inspection/masking/strategies.py",
    "inspection/patterns.py",
    "inspection/sql_comments.py",
    "interception/events.py",
    "interception/pipeline.py",
    "interception/verdicts.py",
    "protocols/wire_base.py",
    "protocols/framing.py",
    "protocols/aws/aws_json_reader.py",
    "protocols/cloudwatch/wire/answer_columns.py",
    "protocols/cloudwatch/wire/answer_rows.py",
    "protocols/cloudwatch/wire/cloudwatch_answers.py",
    "protocols/cloudwatch/wire/event_stream.py",
    "protocols/dynamodb/wire/attribute_values.py",
    "protocols/dynamodb/wire/dynamodb_dialect.py",
    "protocols/dynamodb/wire/dynamodb_rows.py",
    "protocols/http/http_frames.py",
    "protocols/http/http_heads.py",
    "protocols/http/http_redaction.py",
    "protocols/http/http_rewriting.py",
    "protocols/http/http_syntax.py",
    "protocols/http/http1/http1_events.py",
    "protocols/http/http1/http1_fields.py",
    "protocols/http/http1/http1_reader.py",
    "protocols/http/http1/http1_request_reader.py",
    "protocols/http/http1/http1_response_reader.py",
    "protocols/http/http1/http1_writer.py",
    "protocols/http/listener/http1_serving.py",
    "protocols/http/listener/http_credentials.py",
    "protocols/http/listener/http_front.py",
    "protocols/http/listener/http_link.py",
    "protocols/http/listener/http_relay.py",
    "protocols/http/listener/http_stream.py",
    "protocols/http/target/http1_upstream.py",
    "protocols/http/target/http_base_path.py",
    "protocols/http/target/http_target_link.py",
    "protocols/http/target/http_upstream.py",
    "protocols/http/target/request_signer.py",
    "protocols/http/wire/frame_intake.py",
    "protocols/http/wire/http_dialect.py",
    "protocols/http/wire/http_exchange.py",
    "protocols/http/wire/http_response_side.py",
    "protocols/http/wire/http_wire.py",
    "protocols/httpproxy/body_events.py",
    "protocols/httpproxy/body_slices.py",
    "protocols/httpproxy/httpproxy_dialect.py",
    "protocols/httpproxy/json_parts.py",
    "protocols/httpproxy/json_rows.py",
    "protocols/httpproxy/multipart_responses.py",
    "protocols/httpproxy/request_texts.py",
    "protocols/httpproxy/response_readers.py",
    "protocols/httpproxy/websocket_messages.py",
    "protocols/mongodb/wire/bson_documents.py",
    "protocols/mongodb/wire/bson_json.py",
    "protocols/mongodb/wire/mongodb_backend.py",
    "protocols/mongodb/wire/mongodb_commands.py",
    "protocols/mongodb/wire/mongodb_cursors.py",
    "protocols/mongodb/wire/mongodb_frontend.py",
    "protocols/mongodb/wire/mongodb_messages.py",
    "protocols/mongodb/wire/mongodb_output.py",
    "protocols/mongodb/wire/mongodb_reply_scanner.py",
    "protocols/mongodb/wire/mongodb_response_queue.py",
    "protocols/mongodb/wire/mongodb_rows.py",
    "protocols/mongodb/wire/mongodb_values.py",
    "protocols/mongodb/wire/mongodb_wire.py",
    "protocols/mssql/wire/mssql_backend.py",
    "protocols/mssql/wire/mssql_bulk_rows.py",
    "protocols/mssql/wire/mssql_call_texts.py",
    "protocols/mssql/wire/mssql_collations.py",
    "protocols/mssql/wire/mssql_frontend.py",
    "protocols/mssql/wire/mssql_headings.py",
    "protocols/mssql/wire/mssql_output.py",
    "protocols/mssql/wire/mssql_output_variables.py",
    "protocols/mssql/wire/mssql_packet_flow.py",
    "protocols/mssql/wire/mssql_packets.py",
    "protocols/mssql/wire/mssql_requests.py",
    "protocols/mssql/wire/mssql_response_queue.py",
    "protocols/mssql/wire/mssql_rows.py",
    "protocols/mssql/wire/mssql_session_texts.py",
    "protocols/mssql/wire/mssql_token_skipper.py",
    "protocols/mssql/wire/mssql_tokens.py",
    "protocols/mssql/wire/mssql_types.py",
    "protocols/mssql/wire/mssql_value_forms.py",
    "protocols/mssql/wire/mssql_values.py",
    "protocols/mssql/wire/mssql_wire.py",
    "protocols/mysql/wire/mysql_backend.py",
    "protocols/mysql/wire/mysql_bind_values.py",
    "protocols/mysql/wire/mysql_charsets.py",
    "protocols/mysql/wire/mysql_commands.py",
    "protocols/mysql/wire/mysql_frontend.py",
    "protocols/mysql/wire/mysql_headings.py",
    "protocols/mysql/wire/mysql_response_queue.py",
    "protocols/mysql/wire/mysql_messages.py",
    "protocols/mysql/wire/mysql_output.py",
    "protocols/mysql/wire/mysql_result_state.py",
    "protocols/mysql/wire/mysql_rows.py",
    "protocols/mysql/wire/mysql_types.py",
    "protocols/mysql/wire/mysql_values.py",
    "protocols/mysql/wire/mysql_wire.py",
    "protocols/oracledb/wire/oracle_answer_output.py",
    "protocols/oracledb/wire/oracle_answers.py",
    "protocols/oracledb/wire/oracle_backend.py",
    "protocols/oracledb/wire/oracle_cursors.py",
    "protocols/oracledb/wire/oracle_frontend.py",
    "protocols/oracledb/wire/oracle_headings.py",
    "protocols/oracledb/wire/oracle_lobs.py",
    "protocols/oracledb/wire/oracle_notes.py",
    "protocols/oracledb/wire/oracle_open_results.py",
    "protocols/oracledb/wire/oracle_output.py",
    "protocols/oracledb/wire/oracle_row_blocks.py",
    "protocols/oracledb/wire/oracle_rows.py",
    "protocols/oracledb/wire/oracle_values.py",
    "protocols/oracledb/wire/oracle_wire.py",
    "protocols/oracledb/wire/tns_packets.py",
    "protocols/oracledb/wire/ttc_buffers.py",
    "protocols/oracledb/wire/ttc_calls.py",
    "protocols/oracledb/wire/ttc_codes.py",
    "protocols/oracledb/wire/ttc_columns.py",
    "protocols/postgres/dialect/postgres_encodings.py",
    "protocols/postgres/wire/postgres_backend.py",
    "protocols/postgres/wire/postgres_bind_values.py",
    "protocols/postgres/wire/postgres_frontend.py",
    "protocols/postgres/wire/postgres_name_references.py",
    "protocols/postgres/wire/postgres_response_queue.py",
    "protocols/postgres/wire/postgres_messages.py",
    "protocols/postgres/wire/postgres_output.py",
    "protocols/postgres/wire/postgres_rows.py",
    "protocols/postgres/wire/postgres_types.py",
    "protocols/postgres/wire/postgres_wire.py",
    "protocols/tcp/readable_bytes.py",
    "protocols/tcp/tcp_wire.py",
    "protocols/terminal/files/copying.py",
    "protocols/terminal/files/detection.py",
    "protocols/terminal/files/file_hashing.py",
    "protocols/terminal/files/sftp.py",
    "protocols/terminal/files/sftp_messages.py",
    "protocols/terminal/files/transfers.py",
    "protocols/terminal/files/file_wire.py",
    "protocols/terminal/program_wire.py",
    "protocols/terminal/terminal_lines.py",
    "protocols/terminal/terminal_frames.py",
    "protocols/terminal/terminal_output.py",
    "protocols/terminal/terminal_rendering.py",
    "protocols/terminal/terminal_wire.py",
    "protocols/refusal_texts.py",
    "recording/recorder.py",
    "recording/record_format.py",
    "recording/segments.py",
    "recording/spool.py",
    "relay/driver.py",
    "relay/link.py",
    "relay/held_request.py",
    "transport/frames.py",
    "transport/stream_state.py",
    "transport/send_queue.py",
    "transport/demultiplexer.py",
    "transport/stream_windows.py",
]


def compiled() -> list[object]:
    wish = os.environ.get("POSTERN_COMPILE", "auto")
    if wish == "0" or "egg_info" in sys.argv or "dist_info" in sys.argv:
        return []
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if wish != "1" and not (shutil.which(os.environ.get("CC", "cc")) and header.exists()):
        print("postern: no C compiler or no Python headers; the hot path stays plain Python", file=sys.stderr)
        return []
    from mypyc.build import mypycify

    os.environ["MYPYPATH"] = "src"
    # A build has no libraries at hand: `make lint` checks types with them. What compiled files import is only read.
    files = ["--ignore-missing-imports", "--follow-imports=silent", *(f"src/postern/{name}" for name in HOT)]
    return list(mypycify(files, opt_level="3", debug_level="0", multi_file=True))


class AllOrNothing(build_ext):
    """Half of a compiled group cannot be imported: a failure leaves none of it behind."""

    def build_extensions(self) -> None:
        """With all processors: each module is a C file of its own, and setuptools compiles one file at a time.

        Ctrl-C reaches the compilers that run. No thread starts another one afterwards, which would outlive the build.
        """
        compile_files = self.compiler.compile
        is_stopped = Event()

        def compile_side_by_side(sources: list[str], *args: object, **options: object) -> list[str]:
            def compile_file(source: str) -> list[str]:
                if is_stopped.is_set():
                    raise CompileError("the build was stopped")
                try:
                    return compile_files([source], *args, **options)
                except BaseException:
                    is_stopped.set()
                    raise

            with ThreadPoolExecutor(os.cpu_count()) as pool:
                try:
                    return [name for names in pool.map(compile_file, sources) for name in names]
                except BaseException:
                    is_stopped.set()
                    raise

        self.compiler.compile = compile_side_by_side
        super().build_extensions()

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            if os.environ.get("POSTERN_COMPILE") == "1":
                raise
            print(f"postern: the hot path was not compiled ({error}); it stays plain Python", file=sys.stderr)
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []


setup(ext_modules=compiled(), cmdclass={"build_ext": AllOrNothing})
