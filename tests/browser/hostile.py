# SPDX-License-Identifier: Apache-2.0
"""`megacpp serve` among clients that mean it harm: bad requests, ways out of its folder in every encoding, slow clients,
runs that are cut, filled with rubbish and taken away while they are read. It must go on, answer nothing that is not its
own, and hold no more memory and files than before. A program with sanitizers says by itself what else is wrong."""
import os
import pathlib
import random
import shutil
import socket
import threading
import time

from served import INTERRUPTED, Serve, copy_run

SECRET = "secret-of-another-folder"
THREADS = 8
FIRST_REQUESTS = 800
SLOW_CLIENTS = 24               # fewer than the threads of the server: more would make others wait for their 5 s
MOST_GROWTH = 64 << 20          # bytes; without sanitizers, whose own memory grows
SANITIZER_WORDS = ("Sanitizer", "runtime error:")
STEPS = ["..", "%2e%2e", ".%2e", "%2E.", "%252e%252e", "%c0%ae%c0%ae", "%e0%80%ae%e0%80%ae", "..%00", "..%0d%0a", "%uff0e",
         "..;", "...", "..%5c", "..\\", "%2f..", "..%2f..", "%252f", "%c0%af", "%5c%5c", "//", "~root", "a%00", "%", "%2",
         "\udcff\udcfe", "a%2f..", "%2fetc", "etc", "passwd", "link", "recipe.yaml", "proc/self/environ",
         "file:///etc/passwd", "%ef%bc%8e%ef%bc%8e", "\u2025", "%u002e%u002e", "a/..", "a%2e%2e", "?/../..", "#/..", "*"]
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW", "get", ""]


def way_out(rng):
    steps = "".join("/" + rng.choice(STEPS) for _ in range(rng.randint(1, 6)))
    return rng.choice(["", "/runs", "/runs/a", "/compare?run=a&run="]) + steps + rng.choice(["", "", "/events"])


def request_bytes(rng, port):
    host = f"Host: 127.0.0.1:{port}\r\n"
    kind = rng.randrange(10)
    if kind == 0:
        return rng.randbytes(rng.randint(0, 600)) + b"\r\n\r\n"
    if kind == 1:
        data = bytearray(f"GET /runs/a?stamp=1 HTTP/1.1\r\n{host}\r\n\r\n".encode())
        for _ in range(3):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data)
    if kind == 2:
        return f"GET /{'a' * rng.randint(0, 20_000)} HTTP/1.1\r\n{host}\r\n".encode()
    if kind == 3:
        return f"GET / HTTP/1.1\r\n{host}{'X: ' + 'b' * rng.randint(0, 20_000)}\r\n\r\n".encode()
    if kind == 4:
        return (f"POST /runs/a HTTP/1.1\r\n{host}Content-Length: {rng.choice([-1, 4, 10 ** 18])}\r\n"
                "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n").encode() + rng.randbytes(200)
    if kind == 5:
        return f"GET / HTTP/1.1\r\n{host}Range: bytes=0-,-1,5-2\r\nExpect: 100-continue\r\n\r\n".encode() * 3
    if kind == 6:
        other = rng.choice(["evil.example", f"127.0.0.1:{port}@evil.example", f"localhost:{port}.evil.example", "", "\x7f"])
        return f"GET / HTTP/1.1\r\nHost: {other}\r\n\r\n".encode()
    if kind == 7:
        return f"{rng.choice(METHODS)} {way_out(rng)} HTTP/{rng.choice(['1.1', '1.0', '9', '0.9', ''])}\r\n{host}\r\n".encode(
            errors="surrogateescape")
    return f"GET {way_out(rng)} HTTP/1.1\r\n{host}\r\n".encode(errors="surrogateescape")


def ask(port, data, timeout=10.0):
    """What was answered; of a feed its beginning."""
    with socket.create_connection(("127.0.0.1", port), timeout) as client:
        answer = b""
        try:
            client.sendall(data)
            while b"retry: 2000" not in answer:
                part = client.recv(65536)
                if not part:
                    break
                answer += part
        except (ConnectionResetError, BrokenPipeError):
            pass  # it was cut off: that is an answer to too much
        return answer


def finding_in(answer, data):
    if answer[:9] == b"HTTP/1.1 ":
        status = int(answer[9:12])
        if status >= 500 and status != 503:
            return f"status {status} to {data[:300]!r}"
    for secret in (SECRET.encode(), b"root:x:"):
        if secret in answer:
            return f"{secret!r} was given away to {data[:300]!r}"
    return None


class Hostility:
    """All that is done to the server at once, and what was found."""

    def __init__(self, server, runs, requests, seed):
        self.server, self.runs, self.requests, self.seed = server, runs, requests, seed
        self.findings, self.is_over, self.lock = [], threading.Event(), threading.Lock()
        self.asked = 0

    def found(self, what):
        with self.lock:
            if len(self.findings) < 20:
                self.findings.append(what)

    def ask_badly(self, number):
        rng = random.Random(self.seed * 1000 + number)
        for _ in range(self.requests // THREADS):
            data = request_bytes(rng, self.server.port)
            try:
                what = finding_in(ask(self.server.port, data), data)
            except OSError as error:
                what = f"{type(error).__name__} {error} to {data[:300]!r}"
            with self.lock:
                self.asked += 1
            if what:
                self.found(what)
            if not self.server.is_alive():
                self.found("the server ended")
                return

    def damage(self):
        rng = random.Random(self.seed)
        run = self.runs / "b"
        whole = (run / "receipt.json").read_bytes()
        while not self.is_over.is_set():
            with open(run / "receipt.json", "wb") as file:
                file.write(whole[:rng.randrange(len(whole))])
            with open(run / "log.jsonl", "ab") as file:
                file.write(b'{"step": 3, "lo' + rng.randbytes(rng.randrange(60)) + rng.choice([b"", b"\n"]))
            with open(run / "recipe.yaml", "wb") as file:
                file.write(rng.randbytes(rng.randrange(300)))
            if rng.randrange(10) == 0 or (run / "log.jsonl").stat().st_size > 1 << 20:
                shutil.rmtree(run)
                copy_run(self.runs / "a", run)
            time.sleep(0.002)

    def drip(self):
        """Clients that send a byte now and then, and come again when they are cut off."""
        clients = []
        while not self.is_over.is_set():
            while len(clients) < SLOW_CLIENTS:
                try:
                    clients.append(socket.create_connection(("127.0.0.1", self.server.port), 5))
                except OSError as error:
                    self.found(f"a slow client cannot connect: {error}")
                    return
            for client in list(clients):
                try:
                    client.send(b"G")
                except OSError:
                    client.close()
                    clients.remove(client)
            self.is_over.wait(0.2)
        for client in clients:
            client.close()

    def run(self):
        around = [threading.Thread(target=self.damage), threading.Thread(target=self.drip)]
        askers = [threading.Thread(target=self.ask_badly, args=(number,)) for number in range(THREADS)]
        for thread in around + askers:
            thread.start()
        for thread in askers:
            thread.join()
        self.is_over.set()
        for thread in around:
            thread.join()


def is_sanitized(program):
    return b"__asan_init" in pathlib.Path(program).read_bytes()


def settle(server):
    """Waits until connections that are over are closed: their number stays the same for two seconds."""
    seen = []
    for _ in range(300):
        if not server.is_alive():
            return
        seen.append(server.open_files())
        if len(seen) > 20 and len(set(seen[-20:])) == 1:
            return
        time.sleep(0.1)


def check_after(server, before, program):
    """What is wrong with a server that has been through it."""
    findings = []
    if not server.is_alive():
        return ["the server ended"]
    settle(server)
    if server.open_files() > before["files"]:
        findings.append(f"{server.open_files()} open files, {before['files']} before")
    growth = server.resident_bytes() - before["bytes"]
    if growth > MOST_GROWTH and not is_sanitized(program):
        findings.append(f"{growth >> 20} MiB more memory than after the first requests")
    answer = ask(server.port, f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
    if b" 200 " not in answer[:20] or b"/runs/a" not in answer:
        findings.append(f"the list is not answered any more: {answer[:300]!r}")
    return findings


def run_hostile(program, source, work, requests, seed):
    """Findings; `source`: a real run."""
    runs, elsewhere = work / "hostile", work / "elsewhere"
    for folder in (runs, elsewhere):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    (elsewhere / "recipe.yaml").write_text(SECRET)
    os.symlink(elsewhere, runs / "link")
    for name in ("a", "b"):
        copy_run(source, runs / name)
    with Serve(program, runs, work) as server:
        Hostility(server, runs, FIRST_REQUESTS, seed).run()  # what a server takes once
        settle(server)
        before = {"files": server.open_files(), "bytes": server.resident_bytes()} if server.is_alive() else {}
        hostility = Hostility(server, runs, requests, seed + 1)
        start = time.monotonic()
        hostility.run()
        seconds = time.monotonic() - start
        findings = hostility.findings + check_after(server, before, program)
        status = server.stop()
        if status != INTERRUPTED:
            findings.append(f"exit status {status}, wanted {INTERRUPTED} after SIGTERM")
        said = server.said()
        findings += [f"stderr: {line}" for line in said.splitlines() if any(word in line for word in SANITIZER_WORDS)]
    print(f"hostile: {hostility.asked} bad requests in {seconds:.0f} s, {SLOW_CLIENTS} slow clients, runs damaged meanwhile; "
          f"{'with' if is_sanitized(program) else 'without'} sanitizers; {len(findings)} findings")
    for finding in findings:
        print(f"  {finding}")
    return findings
