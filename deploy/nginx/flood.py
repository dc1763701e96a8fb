"""Misuse of an HTTP/2 listener over TLS, one kind a run, bounded: for check.sh.

  flood.py PORT CA CERTIFICATE KEY KIND COUNT     with TLS; CA "-": without

Prints what was sent and how the peer ended it. The standard library alone; frames after RFC 9113, header fields as literals
without indexing (RFC 7541, 6.2.2).
"""

import socket
import ssl
import struct
import sys
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RST_STREAM, SETTINGS, CONTINUATION = 1, 3, 4, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def text(value):
    if len(value) < 127:
        return bytes([len(value)]) + value
    rest, out = len(value) - 127, bytearray([127])
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    return bytes(out) + bytes([rest]) + value


def field(name, value):
    return b"\x00" + text(name) + text(value)


def call(port, scheme=b"https", te=b"trailers"):
    path = b"/varifocal.v1.Evaluation/ListJobs"
    return b"".join([
        field(b":method", b"POST"), field(b":scheme", scheme), field(b":path", path),
        field(b":authority", b"localhost:%d" % port), field(b"content-type", b"application/grpc"), field(b"te", te)
    ])


def connect(port, ca, certificate, key, timeout=10.0):
    connection = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    if ca != "-":
        context = ssl.create_default_context(cafile=ca)
        context.load_cert_chain(certificate, key)
        context.set_alpn_protocols(["h2"])
        connection = context.wrap_socket(connection, server_hostname="localhost")
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0))
    return connection


def send_parts(connection, parts, wait=10):
    """Sends until the peer ends the connection; the number of parts that went out."""
    sent = 0
    try:
        for part in parts:
            connection.sendall(part)
            sent += 1
        connection.settimeout(wait)
        while connection.recv(65536):
            pass
    except (OSError, ssl.SSLError):
        pass
    connection.close()
    return sent


def resets(count, port, *files):
    """Streams that are opened and reset at once (CVE-2023-44487), on new connections as the peer ends them."""
    done, connections = 0, 0
    while done < count and connections < 200:
        connection = connect(port, *files)
        connections += 1
        streams = range(1, 2 * min(count - done, 5000), 2)
        block = call(port)
        done += max(1, send_parts(connection, (frame(HEADERS, END_HEADERS | END_STREAM, stream, block) +
                                               frame(RST_STREAM, 0, stream, struct.pack(">I", 8)) for stream in streams)))
    return f"{done} streams opened and reset on {connections} connections"


def headers(count, port, *files):
    """One call whose header never ends: CONTINUATION frames of 16 KiB (CVE-2023-33953)."""
    connection = connect(port, *files)
    filler = field(b"x-filler", b"a" * 16000)
    parts = [frame(HEADERS, 0, 1, call(port))] + [frame(CONTINUATION, 0, 1, filler)] * count
    return f"{send_parts(connection, parts)} of {count + 1} frames of one header were taken"


def idle(count, port, *files):
    """Connections without a call."""
    connections = []
    try:
        for _ in range(count):
            connections.append(socket.create_connection(("127.0.0.1", port), timeout=5))
    except OSError:
        pass
    time.sleep(2)
    for connection in connections:
        connection.close()
    return f"{len(connections)} idle connections"


def garbage(count, port, *files):
    """Frames of random kinds and bytes after a valid preface."""
    import random
    draw = random.Random(1)
    for _ in range(count):
        connection = connect(port, *files)
        junk = frame(draw.randrange(256), draw.randrange(256), draw.randrange(1 << 31), draw.randbytes(draw.randrange(200)))
        send_parts(connection, [junk] * 3, 1)
    return f"{count} connections with garbage ended"


def fields(count, port, *files):
    """Calls with an unexpected te, :scheme or grpclb_client_stats and more header bytes, below and above limits (CVE-2023-1428)."""
    sizes = [100, 7000, 8150, 8200, 9000, 16000, 16384, 17000, 40000, 200000]
    starts = [call(port, te=b"x"), call(port, scheme=b"ftp"), call(port) + field(b"grpclb_client_stats", b"x"),
              call(port, te=b"x" * 5000)]
    sent = 0
    for start in starts:
        for size in sizes:
            for part in (100, 4000, 15000):
                if sent == count:
                    break
                block = start + b"".join(field(b"x-filler", b"a" * min(part, size - at)) for at in range(0, size, part))
                chunks = [block[at:at + 16000] for at in range(0, len(block), 16000)]
                frames = []
                for at, chunk in enumerate(chunks):
                    flags = (END_HEADERS if at == len(chunks) - 1 else 0) | (END_STREAM if at == 0 else 0)
                    frames.append(frame(HEADERS if at == 0 else CONTINUATION, flags, 1, chunk))
                connection = connect(port, *files, timeout=2.0)
                send_parts(connection, frames, 0.3)
                sent += 1
    return f"{sent} calls with unexpected header fields"


def main():
    port, kind, count = int(sys.argv[1]), sys.argv[5], int(sys.argv[6])
    kinds = {"resets": resets, "headers": headers, "idle": idle, "garbage": garbage, "fields": fields}
    print(kinds[kind](count, port, *sys.argv[2:5]))


if __name__ == "__main__":
    main()
