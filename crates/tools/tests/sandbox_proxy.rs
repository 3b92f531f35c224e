//! The sandbox's proxy as clients meet it, in front of servers of the test's own.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "shared test code may panic"
)]

use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tooloop_tools::{
    Denied, DeniedWhy, HostPattern, Names, NamesFuture, SandboxProxy, SandboxProxySettings,
};

/// A server that sends back what it gets, and keeps it.
struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
    /// How many connections are open.
    open: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How a server answers.
#[derive(Clone, Copy)]
enum Manner {
    /// Sends back each piece as it comes.
    Echo,
    /// Answers a request with "hello", and reads on until the end.
    Hello,
}

impl Server {
    async fn new(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::<Vec<u8>>::new()));
        let kept = Arc::clone(&heard);
        let (opened, open) = watch::channel(0_usize);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let kept = Arc::clone(&kept);
                let nth = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(Vec::new());
                    kept.len() - 1
                };
                let opened = opened.clone();
                opened.send_modify(|open| *open += 1);
                connections.spawn(async move {
                    let mut buffer = vec![0; 64 << 10];
                    let mut answered = false;
                    while let Ok(count @ 1..) = socket.read(&mut buffer).await {
                        let whole = {
                            let mut kept = kept.lock().unwrap();
                            kept[nth].extend(&buffer[..count]);
                            matches!(manner, Manner::Hello)
                                && kept[nth].windows(4).any(|end| end == b"\r\n\r\n")
                        };
                        match manner {
                            Manner::Echo => drop(socket.write_all(&buffer[..count]).await),
                            Manner::Hello if whole && !answered => {
                                answered = true;
                                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\
                                              Connection: close\r\n\r\nhello";
                                drop(socket.write_all(answer.as_bytes()).await);
                                drop(socket.shutdown().await);
                            }
                            Manner::Hello => {}
                        }
                    }
                    opened.send_modify(|open| *open -= 1);
                });
            }
        });
        Self {
            port,
            heard,
            open,
            task,
        }
    }

    /// What each connection said, once all have ended.
    async fn heard(&self) -> Vec<String> {
        let mut open = self.open.clone();
        open.wait_for(|open| *open == 0).await.unwrap();
        let heard = self.heard.lock().unwrap();
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        heard.iter().map(text).collect()
    }
}

/// Every name is at 127.0.0.1, and each question is counted.
#[derive(Debug, Default)]
struct Here(AtomicUsize);

impl Names for Here {
    fn addresses(&self, name: &str) -> NamesFuture {
        // Who asks twice gets another answer, where nobody listens.
        let nth = u8::try_from(self.0.fetch_add(1, Ordering::Relaxed)).unwrap();
        let address = match name {
            "inside.test" => IpAddr::from([169, 254, 169, 254]),
            _ => IpAddr::from([127, 0, 0, 1 + nth % 2]),
        };
        Box::pin(std::future::ready(Ok(vec![address])))
    }
}

fn patterns(hosts: &[String]) -> Vec<HostPattern> {
    hosts.iter().map(|host| host.parse().unwrap()).collect()
}

/// A proxy that may reach `a.test` at the server's port, which is here.
fn proxy(server: &Server) -> SandboxProxy {
    proxy_with(server, |_| {})
}

fn proxy_with(server: &Server, change: impl FnOnce(&mut SandboxProxySettings)) -> SandboxProxy {
    let place = format!("a.test:{}", server.port);
    let mut settings = SandboxProxySettings {
        hosts: patterns(&[place.clone(), format!("inside.test:{}", server.port)]),
        private_hosts: vec![place],
        names: Arc::new(Here::default()),
        ..SandboxProxySettings::default()
    };
    change(&mut settings);
    SandboxProxy::start(settings).unwrap()
}

async fn client(proxy: &SandboxProxy) -> UnixStream {
    UnixStream::connect(proxy.socket()).await.unwrap()
}

/// All that comes back until the end. An end by force is an end too.
async fn rest(client: &mut UnixStream) -> String {
    let mut bytes = Vec::new();
    drop(client.read_to_end(&mut bytes).await);
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn ask(proxy: &SandboxProxy, request: &str) -> String {
    let mut client = client(proxy).await;
    client.write_all(request.as_bytes()).await.unwrap();
    rest(&mut client).await
}

/// Opens a tunnel.
async fn tunnel(proxy: &SandboxProxy, port: u16) -> UnixStream {
    let mut client = client(proxy).await;
    let request = format!("CONNECT a.test:{port} HTTP/1.1\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    established(&mut client).await;
    client
}

async fn established(client: &mut UnixStream) {
    let expected = "HTTP/1.1 200 Connection established\r\n\r\n";
    let mut answer = vec![0; expected.len()];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), expected);
}

#[tokio::test]
async fn a_plain_request_goes_on_alone() {
    let server = Server::new(Manner::Hello).await;
    let proxy = proxy(&server);
    let port = server.port;
    // A second request for another host of the same server comes right behind the first.
    let request = format!(
        "POST http://A.TEST:{port}/x HTTP/1.1\r\nHost: other.test\r\nContent-Length: 2\r\n\r\nok\
         GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n"
    );
    let answer = ask(&proxy, &request).await;
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    let expected = format!(
        "POST /x HTTP/1.1\r\nHost: a.test:{port}\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    );
    assert_eq!(server.heard().await, [expected]);
    assert_eq!(proxy.take_denials(), []);
    proxy.close().await;
}

#[tokio::test]
async fn a_body_in_chunks_goes_on_up_to_its_end() {
    let server = Server::new(Manner::Hello).await;
    let proxy = proxy(&server);
    let port = server.port;
    let body = "3\r\nabc\r\n0\r\n\r\n";
    let request = format!(
        "POST http://a.test:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{body}\
         GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"
    );
    let answer = ask(&proxy, &request).await;
    assert!(answer.ends_with("hello"), "{answer}");
    let heard = server.heard().await.concat();
    assert!(heard.ends_with(&format!("\r\n\r\n{body}")), "{heard}");
}

#[tokio::test]
async fn a_tunnel_carries_all_both_ways() {
    const ALL: usize = 4 << 20;
    let server = Server::new(Manner::Echo).await;
    let proxy = proxy(&server);
    // Some clients do not wait for the tunnel.
    let mut client = client(&proxy).await;
    let request = format!("CONNECT a.test:{} HTTP/1.1\r\n\r\nearly", server.port);
    client.write_all(request.as_bytes()).await.unwrap();
    established(&mut client).await;
    let (mut from, mut to) = client.into_split();
    let sending = async move {
        for number in 0..ALL / 1024 {
            let byte = u8::try_from(number % 251).unwrap();
            to.write_all(&[byte; 1024]).await.unwrap();
        }
        to.shutdown().await.unwrap();
    };
    let receiving = async move {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).await.unwrap();
        bytes
    };
    let ((), bytes) = tokio::join!(sending, receiving);
    let (early, rest) = bytes.split_at(5);
    assert_eq!((early, rest.len()), (&b"early"[..], ALL));
    for (number, piece) in rest.chunks(1024).enumerate() {
        assert!(piece.iter().all(|&byte| usize::from(byte) == number % 251));
    }
}

/// The first bytes of a TLS client that wants to talk to this name.
fn client_hello(name: &str) -> Vec<u8> {
    fn block(bytes: usize, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&length[4 - bytes..], content].concat()
    }
    let names = block(2, &[vec![0], block(2, name.as_bytes())].concat());
    let extensions = [vec![0, 0], block(2, &names)].concat();
    let body = [
        vec![3, 3],
        vec![7; 32],
        block(1, &[]),
        block(2, &[0x13, 1]),
        block(1, &[0]),
        block(2, &extensions),
    ];
    let message = [vec![1], block(3, &body.concat())].concat();
    [vec![22, 3, 1], block(2, &message)].concat()
}

#[tokio::test]
async fn a_tunnel_leads_to_the_host_that_was_asked_for() {
    let server = Server::new(Manner::Echo).await;
    let first = proxy(&server);
    let right = client_hello("A.test");
    let (start, end) = right.split_at(20);
    let mut client = tunnel(&first, server.port).await;
    client.write_all(start).await.unwrap();
    client.write_all(end).await.unwrap();
    let mut echo = vec![0; right.len()];
    client.read_exact(&mut echo).await.unwrap();
    assert_eq!(echo, right);
    // What follows is not looked at.
    let wrong = client_hello("other.test");
    client.write_all(&wrong).await.unwrap();
    let mut echo = vec![0; wrong.len()];
    client.read_exact(&mut echo).await.unwrap();
    assert_eq!(first.take_denials(), []);
    drop(client);

    for (first, host, why) in [
        (wrong, "other.test", DeniedWhy::OtherName),
        (client_hello("not a name"), "a.test", DeniedWhy::Unreadable),
        (vec![22, 3, 1, 0, 0], "a.test", DeniedWhy::Unreadable),
    ] {
        let proxy = proxy(&server);
        let mut client = tunnel(&proxy, server.port).await;
        client.write_all(&first).await.unwrap();
        assert_eq!(rest(&mut client).await, "");
        let (host, port) = (host.to_owned(), server.port);
        assert_eq!(proxy.take_denials(), [Denied { host, port, why }]);
    }
    let heard = server.heard().await;
    // Nothing of the others has arrived.
    assert!(heard.iter().skip(1).all(String::is_empty), "{heard:?}");
}

#[tokio::test]
async fn what_may_not_be_reached_is_refused_and_kept() {
    let server = Server::new(Manner::Hello).await;
    let port = server.port;
    let proxy = proxy_with(&server, |settings| {
        let more = [
            "*.wild.test".to_owned(),
            "db.localhost".to_owned(),
            format!("127.0.0.1:{port}"),
            "10.0.0.1".to_owned(),
            "[::1]".to_owned(),
        ];
        settings.hosts.extend(patterns(&more));
    });
    let address = |address: &str| DeniedWhy::Private(address.parse().unwrap());
    let table = [
        ("other.test", 443, DeniedWhy::NotListed),
        ("a.test", 443, DeniedWhy::Port),
        ("wild.test", 443, DeniedWhy::NotListed),
        ("x.wild.test", 22, DeniedWhy::Port),
        ("a.test.evil.test", port, DeniedWhy::NotListed),
        ("eva.test", port, DeniedWhy::NotListed),
        ("xn--a-ecb.test", port, DeniedWhy::NotListed),
        ("inside.test", port, address("169.254.169.254")),
        ("db.localhost", 443, DeniedWhy::LocalName),
        ("127.0.0.1", port, address("127.0.0.1")),
        ("10.0.0.1", 80, address("10.0.0.1")),
        ("[::1]", 443, address("::1")),
        ("127.0.0.2", port, DeniedWhy::NotListed),
        ("[::ffff:127.0.0.1]", port, DeniedWhy::NotListed),
    ];
    for (host, port, why) in table {
        let denied = Denied {
            host: host.to_owned(),
            port,
            why,
        };
        for request in [
            format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            format!(
                "GET http://{}.:{port}/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
                host.to_uppercase()
            ),
        ] {
            let is_literal = denied.host.contains('[') || denied.host.parse::<IpAddr>().is_ok();
            let request = if is_literal {
                request.replace(".:", ":")
            } else {
                request
            };
            let answer = ask(&proxy, &request).await;
            assert!(
                answer.starts_with("HTTP/1.1 403 Forbidden\r\n"),
                "{request}: {answer}"
            );
            assert!(
                answer.ends_with(&format!("\r\n\r\nsandbox: {denied}\n")),
                "{answer}"
            );
        }
        assert_eq!(proxy.take_denials(), [denied]);
    }
    assert_eq!(server.heard().await.len(), 0);
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let server = Server::new(Manner::Hello).await;
    let proxy = proxy(&server);
    let port = server.port;
    let long = format!(
        "GET http://a.test:{port}/ HTTP/1.1\r\nA: {}\r\n\r\n",
        "x".repeat(17 << 10)
    );
    let endless = "A".repeat(17 << 10);
    let table = [
        (
            format!(
                "POST http://a.test:{port}/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            "400",
        ),
        (
            format!("GET http://me@a.test:{port}/ HTTP/1.1\r\n\r\n"),
            "400",
        ),
        (
            format!("CONNECT a.test:{port}@evil.test:443 HTTP/1.1\r\n\r\n"),
            "400",
        ),
        ("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".into(), "400"),
        ("\u{16}\u{3}\u{1}hello".into(), "400"),
        (long, "431"),
        (endless, "431"),
    ];
    for (request, status) in table {
        let answer = ask(&proxy, &request).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request:.80}: {answer}"
        );
    }
    // One that ends in the middle gets no answer and hurts nobody.
    let mut half = client(&proxy).await;
    half.write_all(b"GET http://a.te").await.unwrap();
    half.shutdown().await.unwrap();
    assert_eq!(rest(&mut half).await, "");
    assert_eq!(
        (server.heard().await.len(), proxy.take_denials()),
        (0, vec![])
    );
}

#[tokio::test]
async fn what_was_looked_at_is_what_is_connected_to() {
    let server = Server::new(Manner::Hello).await;
    let names = Arc::new(Here::default());
    let asked: Arc<dyn Names> = Arc::clone(&names) as _;
    let proxy = proxy_with(&server, |settings| settings.names = asked);
    let request = format!("GET http://a.test:{}/ HTTP/1.1\r\n\r\n", server.port);
    assert!(ask(&proxy, &request).await.ends_with("hello"));
    assert_eq!(names.0.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_no_denial() {
    let server = Server::new(Manner::Hello).await;
    let proxy = proxy(&server);
    let port = server.port;
    server.task.abort();
    let request = format!("GET http://a.test:{port}/ HTTP/1.1\r\n\r\n");
    while !server.task.is_finished() {
        tokio::task::yield_now().await;
    }
    let answer = ask(&proxy, &request).await;
    assert!(
        answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"),
        "{answer}"
    );
    assert!(
        answer.contains(&format!("cannot connect to a.test:{port}: ")),
        "{answer}"
    );
    assert_eq!(proxy.take_denials(), []);
}

#[tokio::test]
async fn nothing_waits_for_ever() {
    let server = Server::new(Manner::Hello).await;
    let proxy = proxy_with(&server, |settings| {
        settings.idle_limit = Duration::from_millis(100);
        settings.head_limit = Duration::from_millis(100);
    });
    let mut silent = tunnel(&proxy, server.port).await;
    assert_eq!(rest(&mut silent).await, "");
    let mut slow = client(&proxy).await;
    slow.write_all(b"GET http://a.te").await.unwrap();
    assert!(rest(&mut slow).await.starts_with("HTTP/1.1 408 "));
}

#[tokio::test]
async fn more_connections_than_there_are_places_for_wait() {
    let server = Server::new(Manner::Echo).await;
    let proxy = proxy_with(&server, |settings| settings.connections = 1);
    let mut first = tunnel(&proxy, server.port).await;
    let mut second = client(&proxy).await;
    let request = format!("CONNECT a.test:{} HTTP/1.1\r\n\r\n", server.port);
    second.write_all(request.as_bytes()).await.unwrap();
    first.write_all(b"ping").await.unwrap();
    let mut pong = [0; 4];
    first.read_exact(&mut pong).await.unwrap();
    assert_eq!((&pong, *server.open.borrow()), (b"ping", 1));
    drop(first);
    // The second question of names is answered with another address, which is not the server's.
    let answer = rest(&mut second).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[tokio::test]
async fn its_end_is_that_of_its_connections() {
    let server = Server::new(Manner::Echo).await;
    for by_close in [true, false] {
        let proxy = proxy(&server);
        let folder = proxy.socket().parent().unwrap().to_owned();
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let mut client = tunnel(&proxy, server.port).await;
        if by_close {
            proxy.close().await;
        } else {
            drop(proxy);
        }
        assert_eq!(rest(&mut client).await, "");
        assert!(!folder.exists());
    }
}

#[tokio::test]
async fn a_wider_one_is_apart() {
    let server = Server::new(Manner::Hello).await;
    let proxy = proxy_with(&server, |settings| {
        settings
            .private_hosts
            .push(format!("b.test:{}", server.port));
    });
    let wider = proxy
        .widened(patterns(&[format!("b.test:{}", server.port)]))
        .unwrap();
    assert_ne!(proxy.socket(), wider.socket());
    let request = format!("GET http://b.test:{}/ HTTP/1.1\r\n\r\n", server.port);
    assert!(ask(&wider, &request).await.ends_with("hello"));
    assert!(ask(&proxy, &request).await.contains("403"));
    assert_eq!(
        (wider.take_denials().len(), proxy.take_denials().len()),
        (0, 1)
    );
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named() {
    let settings = SandboxProxySettings {
        folder: "/proc/no".into(),
        ..SandboxProxySettings::default()
    };
    let error = SandboxProxy::start(settings).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot make the folder /proc/no/tooloop-proxy-"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_finds_its_way() {
    let server = Server::new(Manner::Hello).await;
    let proxy = proxy_with(&server, |settings| settings.port = true);
    let address = proxy.address().unwrap();
    assert_eq!(address.ip(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    let curl = |arguments: Vec<String>| async move {
        let mut command = std::process::Command::new("curl");
        command
            .args(["-sS", "--noproxy", "", "-m", "20", "-x"])
            .arg(format!("http://{address}"))
            .args(arguments);
        tokio::task::spawn_blocking(move || command.output())
            .await
            .unwrap()
    };
    let url = format!("http://a.test:{}/", server.port);
    match curl(vec![url.clone()]).await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: there is no curl here");
            return;
        }
        output => {
            let output = output.unwrap();
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                "hello",
                "{output:?}"
            );
        }
    }
    let denied = curl(vec!["http://other.test/".into()]).await.unwrap();
    let told = String::from_utf8_lossy(&denied.stdout).into_owned();
    assert!(told.contains("other.test:80 may not be reached"), "{told}");
    let denied = curl(vec!["-p".into(), "http://tunnel.test:443/".into()])
        .await
        .unwrap();
    assert!(!denied.status.success());
    let hosts: Vec<_> = proxy
        .take_denials()
        .into_iter()
        .map(|denied| denied.host)
        .collect();
    assert_eq!(hosts, ["other.test", "tunnel.test"]);
}
