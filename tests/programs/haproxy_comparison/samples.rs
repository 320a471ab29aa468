//! Compares samples and conditions with HAProxy: every expression and list of the data files is
//! evaluated by a running HAProxy and by us, with the same requests.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use fulmar_haproxy::rules::eval_context::{Fact, Payload, Variable};
use fulmar_haproxy::rules::{
    Acls, CompileContext, Condition, ConfigFiles, EvalContext, Expression, RequestHead, Sample,
    Word, WordCursor,
};
use fulmar_proto::{HeaderBuf, Headers, Version};
use fulmar_tests::http::HttpClient;
use fulmar_tests::load::bound;
use fulmar_tests::process::{ChildProcess, eventually, peer, run, text};

#[test]
fn expressions_yield_the_values_of_haproxy() {
    let cases = cases(SAMPLES);
    let rule = |expression: &str| format!("lf-string \"{}\"", quoted(&format!("%[{expression}]")));
    let theirs = HaProxySamples::start(&cases, "", rule);
    let mut wrong = String::new();
    for request in REQUESTS {
        let mut client = HttpClient::connect(theirs.address);
        for (at, case) in cases.iter().enumerate() {
            let expected = text(&send_request(&mut client, request, at));
            let ours = SampleContext::new(&client, request, at);
            let expression = Expression::parse_in(case, 1, ours.context(&Acls::new()).files)
                .unwrap_or_else(|fault| panic!("{case}: {fault:?}"));
            let value = expression.evaluate(&ours).and_then(Sample::into_text);
            let value = text(&value.unwrap_or_default());
            let value = value.replace('\r', "%0D").replace('\n', "%0A"); // as a log writes them
            if value != expected {
                writeln!(wrong, "{} {case}: {expected:?}, not {value:?}", request.method).unwrap();
            }
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn conditions_hold_as_in_haproxy() {
    let cases = cases(CONDITIONS);
    let mut tests = String::new();
    for (at, case) in cases.iter().enumerate() {
        writeln!(tests, "  http-request set-var(txn.case{at}) int(1) if {case}").unwrap();
    }
    let mut numbers = 0..;
    let numbers = std::cell::RefCell::new(&mut numbers);
    let rule = |_: &str| {
        let at: usize = numbers.borrow_mut().next().unwrap();
        format!("lf-string %[var(txn.case{at})]")
    };
    let theirs = HaProxySamples::start(&cases, &tests, rule);
    let mut wrong = String::new();
    for request in REQUESTS {
        let mut client = HttpClient::connect(theirs.address);
        for (at, case) in cases.iter().enumerate() {
            let expected = send_request(&mut client, request, at) == b"1";
            let ours = SampleContext::new(&client, request, at);
            let words = words(&format!("if {case}"));
            let acls = Acls::new();
            let condition = Condition::parse(&mut WordCursor::new(&words, 1), &ours.context(&acls))
                .unwrap_or_else(|fault| panic!("{case}: {fault:?}"));
            if condition.holds(&ours) != expected {
                writeln!(wrong, "{} {case}: is {expected}", request.method).unwrap();
            }
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn rules_invalid_in_haproxy_are_invalid() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("haproxy.cfg");
    let place = format!("haproxy.cfg:{}]", PREAMBLE.lines().count() + 1);
    let mut wrong = String::new();
    for case in cases(REFUSED) {
        let value = quoted(&format!("%[{case}]"));
        fs::write(&file, format!("{PREAMBLE}  http-request set-header x \"{value}\"\n"))
            .expect("a file");
        let output = peer("haproxy").arg("-c").arg("-f").arg(&file).output().expect("it starts");
        if !text(&output.stderr).contains(&place) {
            writeln!(wrong, "HAProxy takes {case}").unwrap();
        }
        if Expression::parse(&case, 1).is_ok() {
            writeln!(wrong, "we take {case}").unwrap();
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn client_certificates_yield_the_samples_of_haproxy() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let openssl = |arguments: &str, subject: &[&str]| {
        run(peer("openssl").args(arguments.split(' ')).args(subject).current_dir(dir.path()))
    };
    let authority = "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 9 -subj";
    openssl(authority, &["/O=Those who sign/CN=ca"]);
    let request = "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout client.key \
                   -out client.csr -subj";
    openssl(request, &[NAME]);
    let sign = "x509 -req -in client.csr -CA ca.pem -CAkey ca.key -set_serial 0x80ff01 -days 9 \
                -out client.pem";
    openssl(sign, &[]);
    openssl("x509 -in client.pem -outform der -out client.der", &[]);
    let read = |name: &str| fs::read(dir.path().join(name)).expect("a file");
    fs::write(dir.path().join("both.pem"), [read("ca.pem"), read("ca.key")].concat())
        .expect("a file");
    let (holder, address) = bound();
    let samples = OF_CERTIFICATES.map(|it| quoted(&format!("%[{it}]"))).join("\\n");
    let config = format!(
        "{PREAMBLE}  bind {address} ssl crt both.pem verify required ca-file ca.pem\n\
         \x20 http-request return status 200 content-type text/plain lf-string \"{samples}\"\n"
    );
    fs::write(dir.path().join("haproxy.cfg"), config).expect("a file");
    let mut haproxy = peer("haproxy");
    let _process =
        ChildProcess::start(haproxy.args(["-db", "-f", "haproxy.cfg"]).current_dir(dir.path()));
    eventually("HAProxy listens", || TcpStream::connect(address).is_ok());
    let mut curl = peer("curl");
    curl.args(["-sSk", "--cert", "client.pem", "--key", "client.key"]);
    let answer = run(curl.arg(format!("https://{address}/")).current_dir(dir.path()));
    let theirs: Vec<String> = text(&answer.stdout).split('\n').map(str::to_owned).collect();
    let subject = Nothing { certificate: Some(read("client.der")) };
    let ours = OF_CERTIFICATES.map(|case| {
        let expression = Expression::parse(case, 1).unwrap_or_else(|f| panic!("{case}: {f:?}"));
        let value = expression.evaluate(&subject).and_then(Sample::into_text);
        text(&value.unwrap_or_default())
    });
    assert_eq!(ours.to_vec(), theirs);
    drop(holder);
}

/// The subject of a client certificate, with all characters that need escapes.
const NAME: &str = "/C=FR/ST=Here/L=There/O=Example, Inc./OU=One/OU=Two/CN= #client \"x\";<y>/\
    emailAddress=a@b.example/UID=u1/DC=example/serialNumber=7/GN=G/SN=S/title=T";

const OF_CERTIFICATES: [&str; 19] = [
    "ssl_c_s_dn",
    "ssl_c_i_dn",
    "ssl_c_i_dn(O)",
    "ssl_c_s_dn(CN)",
    "ssl_c_s_dn(cn)",
    "ssl_c_s_dn(OU)",
    "ssl_c_s_dn(OU,2)",
    "ssl_c_s_dn(OU,3)",
    "ssl_c_s_dn(OU,-1)",
    "ssl_c_s_dn(OU,-2)",
    "ssl_c_s_dn(,0,rfc2253)",
    "ssl_c_serial,hex",
    "ssl_c_notafter",
    "ssl_c_notbefore",
    "ssl_c_key_alg",
    "ssl_c_sig_alg",
    "ssl_c_version",
    "ssl_c_sha1,hex",
    "ssl_c_der,sha2,hex",
];

/// A request for samples.
#[derive(Clone, Copy)]
struct SampleRequest {
    method: &'static str,
    target: &'static str,
    fields: &'static [(&'static str, &'static str)],
    body: &'static str,
}

const REQUESTS: &[SampleRequest] = &[
    SampleRequest {
        method: "GET",
        target: "/dir/sub/page.html;sid=5?x=1&y=%20a+b;z=-3&x=2&empty=&bare",
        fields: &[
            ("Host", "www.Example.com:8080"),
            ("Cookie", "a=1; b=2;  c = 3 ; a=4; d; e="),
            ("Cookie", "a=5"),
            ("X-List", "p, q , r"),
            ("X-List", "s,,\"t,u\", 12abc"),
            ("X-Forwarded-For", "10.1.2.3, 192.168.7.8:99 , 2001:db8::7"),
            ("User-Agent", "curl/7.88 (x86_64; Linux)"),
            ("Accept-Language", "fr-FR,en;q=0.8"),
            ("Authorization", "Basic dXNlcjpwYTpzcw=="),
            ("X-Empty", ""),
            ("Cookie", "q=\"x;y\"; r=1,s=2;t"),
            ("X-Ip", "[2001:db8::1]"),
            ("X-Ip-Port", "[2001:db8::1]:80"),
            ("X-Ip4-Port", "1.2.3.4:80"),
            ("X-Ip4-Bad-Port", "1.2.3.4:99999"),
            ("X-Ip4-More", "1.2.3.4x"),
            ("X-Ip4-Mapped", "::ffff:1.2.3.4"),
        ],
        body: "",
    },
    SampleRequest {
        method: "PUT",
        target: "http://10.0.0.1:81/abs/path?q=/1",
        fields: &[("Host", "10.0.0.1:81")],
        body: "",
    },
    SampleRequest {
        method: "POST",
        target: "/form?id=77",
        fields: &[
            ("Host", "api.example.org"),
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Authorization", "Bearer abc.def"),
            ("X-Forwarded-For", "unknown"),
            ("Content-Length", "24"),
        ],
        body: "name=bob&age=42&name=eve",
    },
];

/// Sends a request to HAProxy, and returns the body of the response.
fn send_request(client: &mut HttpClient, request: &SampleRequest, at: usize) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.1\r\nX-Case: {at}\r\n", request.method, request.target);
    for (name, value) in request.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("\r\n{}", request.body));
    client.send(head);
    client.read_reply().expect("a reply").body
}

/// HAProxy with a rule for each case.
struct HaProxySamples {
    address: SocketAddr,
    _process: ChildProcess,
    _holder: std::os::fd::OwnedFd,
    _dir: tempfile::TempDir,
}

impl HaProxySamples {
    fn start(cases: &[String], before: &str, rule: impl Fn(&str) -> String) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for (name, content) in FILES {
            fs::write(dir.path().join(name), content).expect("a file");
        }
        let (holder, address) = bound();
        let mut config = PREAMBLE.to_owned();
        config.push_str(&format!("  bind {address}\n"));
        for (name, value) in VARIABLES {
            config.push_str(&format!("  http-request set-var({name}) {value}\n"));
        }
        config.push_str(before);
        for (at, case) in cases.iter().enumerate() {
            config.push_str(&format!(
                "  http-request return status 200 content-type text/plain {} \
                 if {{ req.hdr(x-case) -m str {at} }}\n",
                rule(case)
            ));
        }
        let file = dir.path().join("haproxy.cfg");
        fs::write(&file, config).expect("a file");
        let haproxy = || {
            let mut command: Command = peer("haproxy");
            command.arg("-db").arg("-f").arg(&file).current_dir(dir.path());
            command
        };
        run(haproxy().arg("-c"));
        let process = ChildProcess::start(&mut haproxy());
        eventually("HAProxy listens", || TcpStream::connect(address).is_ok());
        Self { address, _process: process, _holder: holder, _dir: dir }
    }
}

/// The same request in our representation.
#[derive(Debug)]
struct SampleContext {
    head: RequestHead,
    hops: HeaderBuf,
    body: &'static str,
    source: SocketAddr,
    destination: SocketAddr,
    variables: HashMap<Variable, Sample<'static>>,
}

impl SampleContext {
    fn new(client: &HttpClient, request: &SampleRequest, at: usize) -> Self {
        let (mut fields, mut hops) = (HeaderBuf::new(), HeaderBuf::new());
        fields.push("X-Case", at.to_string().as_bytes()).expect("a field");
        for (name, value) in request.fields {
            let to = if *name == "Content-Length" { &mut hops } else { &mut fields };
            to.push(name, value.as_bytes()).expect("a field");
        }
        let variables = VARIABLES.iter().map(|(name, value)| {
            let value = Expression::parse(value, 1).expect("a value");
            let value = value.evaluate(&Nothing::default()).expect("a value").into_owned();
            (Variable::parse(name).expect("a name"), value)
        });
        Self {
            head: RequestHead {
                method: request.method.into(),
                target: request.target.into(),
                version: Version::Http11,
                fields,
            },
            hops,
            body: request.body,
            source: client.socket().local_addr().expect("an address"),
            destination: client.socket().peer_addr().expect("an address"),
            variables: variables.collect(),
        }
    }

    fn context<'a>(&'a self, acls: &'a Acls) -> CompileContext<'a> {
        CompileContext { acls, files: self }
    }
}

impl ConfigFiles for SampleContext {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let file = FILES.iter().find(|(name, _)| *name == path);
        file.map(|(_, content)| content.as_bytes().to_vec())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl EvalContext for SampleContext {
    fn request(&self) -> Option<&RequestHead> {
        Some(&self.head)
    }

    fn source(&self) -> Option<SocketAddr> {
        Some(self.source)
    }

    fn destination(&self) -> Option<SocketAddr> {
        Some(self.destination)
    }

    fn body(&self) -> Payload<'_> {
        Payload { bytes: self.body.as_bytes(), complete: true }
    }

    fn request_hop_fields(&self) -> Headers<'_> {
        self.hops.as_headers()
    }

    fn variable(&self, variable: &Variable) -> Option<Sample<'_>> {
        self.variables.get(variable).cloned()
    }
}

/// No data, except an optional certificate.
#[derive(Default)]
struct Nothing {
    certificate: Option<Vec<u8>>,
}

impl EvalContext for Nothing {
    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        match fact {
            Fact::ClientCertificateDer => {
                self.certificate.as_ref().map(|der| Sample::Binary(der[..].into()))
            }
            _ => None,
        }
    }
}

/// The lines of a data file without comments.
fn cases(file: &str) -> Vec<String> {
    let lines = file.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    lines.map(str::to_owned).collect()
}

fn words(line: &str) -> Vec<Word> {
    line.split(' ').map(|text| Word { text: text.to_owned(), column: 1 }).collect()
}

/// As in double quotes in a configuration.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$")
}

const SAMPLES: &str = include_str!("../../data/haproxy-samples.txt");
const CONDITIONS: &str = include_str!("../../data/haproxy-conditions.txt");
const REFUSED: &str = include_str!("../../data/haproxy-refused.txt");

const PREAMBLE: &str = "global\n  stats timeout 1s\n\
    defaults\n  mode http\n  option http-buffer-request\n\
    \x20 timeout client 20s\n  timeout server 20s\n  timeout connect 20s\n\
    frontend test\n";

/// Environment variables.
const VARIABLES: &[(&str, &str)] =
    &[("txn.foo", "str(foo)"), ("txn.seven", "int(7)"), ("txn.ip", "ipv4(10.1.2.3)")];

/// Files of maps and lists.
const FILES: &[(&str, &str)] = &[
    (
        "hosts.map",
        "# hosts and backends\n\nwww.example.com  web servers  \n  api.example.org\tapi\n\
         # the second of a key does not count\napi.example.org other\nwww longer\nw short\n",
    ),
    ("numbers.map", "1 one\n2:5 few\n6: many\n"),
    ("ints.map", "/dir 10\n/dir/sub 20\nfoo 5\nform 30\n"),
    ("networks.map", "10.0.0.0/8 ten\n10.1.0.0/16 ten-one\n::1 loop\n127.0.0.1 home\n"),
    ("regex.map", "^/dir/(.*)/page /moved/\\1\n^/f(.)rm o=\\1 \\0\n"),
    ("addresses.map", "foo 1.2.3.4\nwww ::1\n"),
    ("list.txt", "# remark\n/dir/sub/page.html;sid=5\n  /form\n\n"),
    ("folded.txt", "API.example.ORG\nwww.EXAMPLE.com:8080\n"),
];
