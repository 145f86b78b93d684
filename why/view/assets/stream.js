// Follows the server's stream of events and comes back by itself when it ends. Read by fetch, because an EventSource
// cannot carry a token.

const API = "api/v1alpha1";
const WAITS = [500, 1000, 2000, 5000, 10000];

export class Unauthorized extends Error {}

export class Connection {
  #token = "";
  #namespace = "";
  #failures = 0;

  // `handlers`: view(data), change(data), linked(), broken(reason), unauthorized(reason).
  constructor(handlers) {
    this.handlers = handlers;
  }

  // The token lives in this page's memory alone.
  use(token, namespace) {
    this.#token = token.trim();
    this.#namespace = namespace.trim();
  }

  get hasToken() {
    return this.#token !== "";
  }

  async follow() {
    for (;;) {
      try {
        await this.#once();
        if (this.#failures === 0) {
          // The server ends a stream now and then to have the token judged again.
          this.#failures = 1;
          continue;
        }
        this.handlers.broken("the connection ended");
      } catch (error) {
        if (error instanceof Unauthorized) {
          this.handlers.unauthorized(error.message);
          return;
        }
        this.handlers.broken(error.message);
      }
      const wait = WAITS[Math.min(this.#failures, WAITS.length - 1)];
      this.#failures += 1;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  async why(kind, namespace, name, signal) {
    const query = new URLSearchParams({ kind, namespace, name });
    const response = await this.#get(`${API}/why?${query}`, signal);
    return response.json();
  }

  async #once() {
    const response = await this.#get(this.#namespace ? `${API}/stream?${new URLSearchParams({ namespace: this.#namespace })}` : `${API}/stream`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      let from = Math.max(0, rest.length - 1);
      rest += value;
      for (let end = rest.indexOf("\n\n", from); end >= 0; end = rest.indexOf("\n\n")) {
        this.#dispatch(rest.slice(0, end));
        rest = rest.slice(end + 2);
      }
    }
  }

  #dispatch(block) {
    this.#failures = 0;
    this.handlers.linked();
    const newline = block.indexOf("\n");
    if (!block.startsWith("event: ") || newline < 0) return;
    const data = block.slice(newline + 1 + "data: ".length);
    this.handlers[block.slice("event: ".length, newline)]?.(JSON.parse(data));
  }

  async #get(path, signal) {
    const headers = this.#token ? { Authorization: `Bearer ${this.#token}` } : {};
    const response = await fetch(path, { headers, cache: "no-store", signal });
    if (response.ok) return response;
    const text = (await response.text()).trim();
    throw response.status === 401 ? new Unauthorized(text) : new Error(text || response.statusText);
  }
}
