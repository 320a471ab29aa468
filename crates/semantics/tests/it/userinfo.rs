//! URLs in messages and logs.

use fulmar_semantics::userinfo::without_password;

#[test]
fn passwords_are_removed() {
    for (text, shown) in [
        ("http://ann:wrong@127.0.0.1:21103/tiny.txt", "http://ann@127.0.0.1:21103/tiny.txt"),
        ("HTTP://ann:a%40b:c@h", "HTTP://ann@h"),
        ("http://ann:a@b@h/c@d", "http://ann@h/c@d"),
        ("http://:secret@h?a:b@c", "http://@h?a:b@c"),
        ("http://ann:@h/", "http://ann:@h/"),
        ("http:\\\\ann:secret@h/", "http://ann@h/"),
        ("http:ann:secret@h/", "http://ann@h/"),
        ("http://an\tn:sec\tret@h/", "http://an\tn@h/"),
        ("http:/\t/ann:secret@h/", "http://ann@h/"),
        // Not URLs.
        ("http://ann:sec/ret@h/", "http://ann@h/"),
        ("http://ann:secret@h:x/", "http://ann@h:x/"),
        ("ann:secret@h/", "ann@h/"),
        ("ann:sec ret@h/", "ann@h/"),
        ("//ann:secret@h/", "//ann@h/"),
        ("ann:secret@h/?u=http://x", "ann@h/?u=http://x"),
        ("ann:sec://ret@h", "ann@h"),
        ("http://ann:secret@h/ name more", "http://ann@h/ name more"),
    ] {
        assert_eq!(without_password(text), shown, "{text}");
    }
}

#[test]
fn texts_without_a_password_are_unchanged() {
    for text in [
        "",
        "@",
        "no URL",
        "http://h/",
        "http://ann@h/a:b",
        "http://h/a:b@c",
        "http://h:80/a@b?c:d@e",
        "http://[::1]:80/a@b",
        "http:///a@b",
    ] {
        assert_eq!(without_password(text), text);
    }
}
