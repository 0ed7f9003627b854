"""A client of an HTTP application at a command line: it sends each line of its input as a request, and prints the
answer.

    python http_program.py URL USER PASSWORD

A line is a method and a path. A response that is no success is printed as `ERROR STATUS TEXT`, and so is one that broke
off. It ends after the first line if that was refused before its session began.
"""

from __future__ import annotations

import sys

import httpx


def main(url: str, user: str, password: str) -> int:
    with httpx.Client(base_url=url, auth=(user, password), timeout=600) as client:
        has_begun = False
        for line in sys.stdin:
            method, _, path = line.strip().partition(" ")
            if not path:
                continue
            if not send(client, method, path) and not has_begun:
                return 1
            has_begun = True
    return 0


def send(client: httpx.Client, method: str, path: str) -> bool:
    """Print the answer. Return whether it was a success."""
    try:
        answer = client.request(method, path)
    except httpx.HTTPError as error:
        print(f"ERROR the connection ended: {error}", flush=True)
        return False
    text = answer.text.strip()
    # The gateway's messages become sentences in HTTP.
    print(text if answer.is_success else f"ERROR {answer.status_code} {text[:1].lower()}{text[1:]}", flush=True)
    return answer.is_success


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
