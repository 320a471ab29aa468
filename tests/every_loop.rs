//! The macros that run a test in several kinds of loop.

/// Defines tests of functions that are generic over a [`Loop`](crate::loops::Loop): one for each
/// kind of loop, at full speed; with `at_any_pace` also byte by byte in our own loop and in an
/// application's.
#[macro_export]
macro_rules! tests_in_every_loop {
    (at_any_pace: [$($name:ident),* $(,)?] $(,)?) => {
        $crate::tests_in_every_loop!(at_any_pace: [$($name),*], at_full_speed: []);
    };
    (at_any_pace: [$($name:ident),* $(,)?], at_full_speed: [$($fast:ident),* $(,)?] $(,)?) => {
        $crate::tests_in_every_loop!(@ epoll, OwnLoop<_>, [$($name,)* $($fast),*]);
        $crate::tests_in_every_loop!(@ ring, RingLoop<_>, [$($name,)* $($fast),*]);
        $crate::tests_in_every_loop!(@ own_level, LevelLoop<_>, [$($name,)* $($fast),*]);
        $crate::tests_in_every_loop!(@ poll, PollLoop<_>, [$($name,)* $($fast),*]);
        $crate::tests_in_every_loop!(@ level, AppLoop<_, LevelTriggered>, [$($name,)* $($fast),*]);
        $crate::tests_in_every_loop!(@ edge, AppLoop<_, Edge>, [$($name,)* $($fast),*]);
        $crate::tests_in_every_loop!(@ one_shot, AppLoop<_, OneShot>, [$($name,)* $($fast),*]);
        $crate::tests_in_every_loop!(@ registered_once, AppLoop<_, Once>, [$($name,)* $($fast),*]);
        $crate::tests_in_every_loop!(@ epoll_bytewise, Bytewise<OwnLoop<_>>, [$($name),*]);
        $crate::tests_in_every_loop!(
            @ level_bytewise, Bytewise<AppLoop<_, LevelTriggered>>, [$($name),*]
        );
    };
    (@ $world:ident, $loop:ty, [$($name:ident),* $(,)?]) => {
        mod $world {
            #[allow(unused_imports, reason = "each world names one or two of them")]
            use $crate::loops::{
                AppLoop, Bytewise, Edge, LevelLoop, LevelTriggered, Once, OneShot, OwnLoop,
                PollLoop, RingLoop,
            };
            $(#[test] fn $name() { super::$name::<$loop>(); })*
        }
    };
}

/// Defines tests of functions that are generic over a [`Loop`](crate::loops::Loop), for code above
/// the engine, which is the same in every loop: in our own, in an application's, and byte by byte
/// in our own.
#[macro_export]
macro_rules! tests_in_three_loops {
    (at_any_pace: [$($name:ident),* $(,)?] $(,)?) => {
        $crate::tests_in_three_loops!(at_any_pace: [$($name),*], at_full_speed: []);
    };
    (at_any_pace: [$($name:ident),* $(,)?], at_full_speed: [$($fast:ident),* $(,)?] $(,)?) => {
        $crate::tests_in_every_loop!(@ epoll, OwnLoop<_>, [$($name,)* $($fast),*]);
        $crate::tests_in_every_loop!(@ level, AppLoop<_, LevelTriggered>, [$($name,)* $($fast),*]);
        $crate::tests_in_every_loop!(@ epoll_bytewise, Bytewise<OwnLoop<_>>, [$($name),*]);
    };
}

/// Runs a check, which is generic over a [`Loop`](crate::loops::Loop), in every kind of loop, in
/// parallel threads: waits overlap. At full speed and, unless it is about speed, byte by byte.
#[macro_export]
macro_rules! in_every_loop {
    ($check:ident) => {{
        use $crate::loops::{
            AppLoop, Bytewise, Edge, LevelLoop, LevelTriggered, Once, OneShot, OwnLoop, PollLoop,
            RingLoop,
        };
        $crate::loops::side_by_side(&[
            ("epoll", $check::<OwnLoop<_>>),
            ("ring", $check::<RingLoop<_>>),
            ("own level", $check::<LevelLoop<_>>),
            ("poll", $check::<PollLoop<_>>),
            ("level", $check::<AppLoop<_, LevelTriggered>>),
            ("edge", $check::<AppLoop<_, Edge>>),
            ("one shot", $check::<AppLoop<_, OneShot>>),
            ("registered once", $check::<AppLoop<_, Once>>),
            ("epoll, bytewise", $check::<Bytewise<OwnLoop<_>>>),
            ("level, bytewise", $check::<Bytewise<AppLoop<_, LevelTriggered>>>),
        ]);
    }};
    ($check:ident, at_full_speed) => {{
        use $crate::loops::{
            AppLoop, Edge, LevelLoop, LevelTriggered, Once, OneShot, OwnLoop, PollLoop, RingLoop,
        };
        $crate::loops::side_by_side(&[
            ("epoll", $check::<OwnLoop<_>>),
            ("ring", $check::<RingLoop<_>>),
            ("own level", $check::<LevelLoop<_>>),
            ("poll", $check::<PollLoop<_>>),
            ("level", $check::<AppLoop<_, LevelTriggered>>),
            ("edge", $check::<AppLoop<_, Edge>>),
            ("one shot", $check::<AppLoop<_, OneShot>>),
            ("registered once", $check::<AppLoop<_, Once>>),
        ]);
    }};
}
