// An origin on Node's own http server. Prints its port.
const http = require('http');

const server = http.createServer((request, response) => {
  const parts = [];
  request.on('data', data => parts.push(data));
  request.on('end', () => {
    const body = Buffer.concat(parts);
    if (request.url === '/trailers') {
      response.setHeader('Trailer', 'X-Sum');
      response.write(body);
      response.addTrailers({ 'X-Sum': String(body.length), 'X-Came': request.trailers['x-went'] || '-' });
      response.end();
    } else if (request.url === '/hints') {
      response.writeEarlyHints({ link: '</a.css>; rel=preload' });
      setTimeout(() => response.end('hinted'), 30);
    } else if (request.url === '/big') {
      for (let i = 0; i < 50; i++) response.write(Buffer.alloc(100000, i));
      response.end();
    } else if (request.url === '/break') {
      response.write('part');
      setTimeout(() => request.socket.destroy(), 30);
    } else if (request.url === '/empty') {
      response.writeHead(204).end();
    } else {
      response.setHeader('Content-Length', body.length);
      response.end(body);
    }
  });
});
server.keepAliveTimeout = 1500;
server.on('checkContinue', (request, response) => {
  if (request.url === '/refuse') {
    response.writeHead(413, { 'Content-Length': 3, Connection: 'close' });
    response.end('big');
  } else {
    response.writeContinue();
    server.emit('request', request, response);
  }
});
server.on('upgrade', (request, socket) => {
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n');
  socket.pipe(socket);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
