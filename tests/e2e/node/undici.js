// What applications do with undici and a proxy. Arguments: package, how, proxy URL, origin URL, further ones.
// Prints one JSON value.
const [name, how, proxy, origin, ...rest] = process.argv.slice(2);
const undici = require(name);

function dispatcher(uri) {
  if (how === 'env') {
    process.env.http_proxy = uri;
    return new undici.EnvHttpProxyAgent();
  }
  return how === 'tunnel' ? new undici.ProxyAgent({ uri, proxyTunnel: true }) : new undici.ProxyAgent(uri);
}

const agent = dispatcher(proxy);
if (how === 'global') undici.setGlobalDispatcher(agent);
// 'global': Node's built-in fetch, which knows of no proxy itself, by way of the global dispatcher.
const get = how === 'global' ? globalThis.fetch : (url, init) => undici.fetch(url, { dispatcher: agent, ...init });

async function one(path, init) {
  const answer = await get(origin + path, init);
  return [answer.status, await answer.text(), answer.headers.get('evenkeel-attempts')];
}

async function* pieces() {
  for (const piece of ['a', 'bc', 'def'.repeat(20000)]) yield Buffer.from(piece);
}

const scenarios = {
  async everything() {
    const out = [];
    out.push(await one('/503'));
    out.push(await one('/reset?q=%20x'));
    out.push(await one('/chunked'));
    out.push(await one('/x', { method: 'POST', body: 'abc' }));
    out.push(await one('/x', { method: 'PUT', body: pieces(), duplex: 'half' }));
    out.push(await one('/x', { method: 'HEAD' }));
    out.push(await one('/down', { headers: { 'evenkeel-max-attempts': '1' } }));
    return out;
  },
  async parallel() {
    const answers = await Promise.all([...Array(30)].map((_, i) => one('/' + i)));
    return answers.map(answer => answer[0]);
  },
  async events() {
    const answer = await get(origin + '/events');
    const lags = [];
    let text = '';
    for await (const data of answer.body) {
      const now = Date.now();
      text += Buffer.from(data).toString();
      let match;
      while ((match = /^data: (\d+)\n\n/.exec(text))) {
        lags.push(now - Number(match[1]));
        text = text.slice(match[0].length);
      }
    }
    return lags;
  },
  async abort() {
    const control = new AbortController();
    setTimeout(() => control.abort(), 800);
    try {
      await get(origin + '/hold', { signal: control.signal });
      return 'answered';
    } catch (fault) {
      return fault.name;
    }
  },
  async request() {
    const answer = await undici.request(origin + '/trailers', { dispatcher: agent, method: 'PUT', body: 'abc' });
    const text = await answer.body.text();
    return [answer.statusCode, text, answer.trailers];
  },
  async broken() {
    try {
      const answer = await get(origin + '/broken');
      await answer.text();
      return 'complete';
    } catch (fault) {
      return fault.name;
    }
  },
  async websocket() {
    const socket = new undici.WebSocket(rest[0], { dispatcher: agent });
    const got = [];
    return new Promise((resolve, reject) => {
      socket.onopen = () => { socket.send('hello'); socket.send('x'.repeat(100000)); };
      socket.onerror = event => reject(event.error || new Error(event.message));
      socket.onmessage = event => {
        got.push(event.data.length);
        if (got.length === 2) socket.close(1000);
      };
      socket.onclose = event => resolve([got, event.code]);
    });
  },
};

scenarios[rest.at(-1)]().then(async value => {
  console.log(JSON.stringify(value));
  await agent.close();
}).catch(fault => { console.error(fault, fault.cause); process.exit(1); });
