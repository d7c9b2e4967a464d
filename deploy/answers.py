"""`python deploy/answers.py HOST PORT PATH`: exit code 0 when that path answers 200. For healthchecks."""

import http.client
import sys

WITHIN_SECONDS = 8


def main(host: str, port: str, path: str) -> int:
    connection = http.client.HTTPConnection(host, int(port), timeout=WITHIN_SECONDS)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except OSError as error:
        print(f"{host}:{port}{path}: {error}")
        return 1
    print(f"{host}:{port}{path}: {status}")
    return int(status != http.client.OK)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
