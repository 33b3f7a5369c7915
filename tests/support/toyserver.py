"""A web server of this process, whose every answer the test decides."""

import contextlib
import http.server
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with what `server.answer` does; `server.asked` counts."""

    def do_GET(self):
        self.server.asked.append(self.path)
        self.server.answer(self)

    def log_message(self, *_):
        pass

    def send(self, data, length=None, code=200):
        self.send_response(code)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        self.wfile.write(data)


@contextlib.contextmanager
def toy_server():
    """A running server: set its `answer`; `asked` collects paths, `address` is where it is.

    An answer that takes its time waits for the event `go_on`, which is set at the end.
    """
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked, server.daemon_threads, server.go_on = [], True, threading.Event()
        server.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.go_on.set()
            server.shutdown()
            thread.join()
