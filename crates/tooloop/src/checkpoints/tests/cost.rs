use super::*;
use std::time::Instant;

#[test]
fn cost() {
    for is_git in [true, false] {
        for count in [100_usize, 1_000, 10_000] {
            let mut world = World::new();
            for n in 0..count {
                let folder = world.path(format!("d{}/e{}", n % 37, n % 11));
                fs::create_dir_all(&folder).unwrap();
                let mut content = format!("file {n}\n").into_bytes();
                content.resize(8_000, b'x');
                fs::write(folder.join(format!("f{n}.rs")), content).unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
            if is_git {
                world.commit();
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
            let time = |name: &str, begun: Instant| {
                println!(
                    "git {is_git} {count}: {name} {:.2} ms",
                    begun.elapsed().as_secs_f64() * 1e3
                )
            };
            let b = Instant::now();
            world.before(1, &Touched::Anything);
            time("first before", b);
            let b = Instant::now();
            world.after();
            time("after, nothing", b);
            for _ in 0..3 {
                std::thread::sleep(std::time::Duration::from_millis(30));
                let b = Instant::now();
                world.before(1, &Touched::Anything);
                time("before", b);
                fs::write(world.path("d1/e1/f1.rs"), "in place").unwrap();
                let b = Instant::now();
                world.after();
                time("after, 1 in place", b);
            }
            std::thread::sleep(std::time::Duration::from_millis(30));
            world.before(1, &Touched::Anything);
            fs::write(world.path("d1/new.rs"), "new").unwrap();
            let b = Instant::now();
            world.after();
            time("after, 1 new (walk)", b);
            std::thread::sleep(std::time::Duration::from_millis(30));
            let b = Instant::now();
            world.tool(1, &["d1/e1/f1.rs"], |_| ());
            time("tool before+after", b);
            println!("{} bytes kept", world.keeper.store.blobs.bytes());
        }
    }
}
