"""The thread pool's functions in LLVM assembly.

@take runs pieces of the published work until none is left, those of its own share first: the same thread gets the same part
of equal operands again and finds it in its core's cache. @serve is the life of a worker; @run publishes work, joins
in and waits for those who entered. The other functions are kinds of work: @slice, @cell, @part and @whole run a
ufunc's loop on a part of its operands, @split and @grid are loops that cut themselves into such parts.
PAUSE, SPIN, MOST, WORTHWHILE and SHARE_BITS are filled in by `pool`.
"""

# Fields of @state, each in its own cache line:
# 0 mutex, 1 condition, 2 generation, 3 open, 4 inside, 5 (work: function, argument, count, team), 6 sleepers, 7 busy,
# 8 started, 9 limit. @next has the next piece of each member's share.
TEXT = """
@state = internal global [10 x [16 x i64]] zeroinitializer, align 128
@next = internal global [MOST x [16 x i64]] zeroinitializer, align 128

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

define internal void @take(i64 %me) nounwind {
entry:
  %work = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 5, i64 0
  %function = load ptr, ptr %work
  %at = getelementptr i64, ptr %work, i64 1
  %argument = load ptr, ptr %at
  %ct = getelementptr i64, ptr %work, i64 2
  %count = load i64, ptr %ct
  %tt = getelementptr i64, ptr %work, i64 3
  %team = load i64, ptr %tt
  br label %share
share:
  %v = phi i64 [ 0, %entry ], [ %v1, %exhausted ]
  %sum = add i64 %me, %v
  %over = icmp sge i64 %sum, %team
  %wrapped = sub i64 %sum, %team
  %owner = select i1 %over, i64 %wrapped, i64 %sum
  %next = getelementptr [MOST x [16 x i64]], ptr @next, i64 0, i64 %owner, i64 0
  %owner1 = add i64 %owner, 1
  %e = mul i64 %count, %owner1
  %end = udiv i64 %e, %team
  br label %head
head:
  %seen = load atomic i64, ptr %next monotonic, align 8
  %some = icmp slt i64 %seen, %end
  br i1 %some, label %claim, label %exhausted
claim:
  %i = atomicrmw add ptr %next, i64 1 seq_cst
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %exhausted
body:
  call void %function(ptr %argument, i64 %i)
  br label %head
exhausted:
  %v1 = add i64 %v, 1
  %left = icmp slt i64 %v1, %team
  br i1 %left, label %share, label %done
done:
  ret void
}

define internal ptr @serve(ptr %index) nounwind {
entry:
  %number = ptrtoint ptr %index to i64
  %mutex = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 0, i64 0
  %condition = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 1, i64 0
  %generation = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 2, i64 0
  %open = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 3, i64 0
  %inside = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 4, i64 0
  %sleepers = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 6, i64 0
  %limit = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 9, i64 0
  br label %idle
idle:
  %seen = phi i64 [ 0, %entry ], [ %fresh, %done ]
  br label %spin
spin:
  %turn = phi i64 [ 0, %idle ], [ %turns, %pause ]
  %now = load atomic i64, ptr %generation acquire, align 8
  %changed = icmp ne i64 %now, %seen
  br i1 %changed, label %woken, label %again
again:
  %turns = add i64 %turn, 1
  %tired = icmp ugt i64 %turns, SPIN
  br i1 %tired, label %sleep, label %pause
pause:
  call void asm sideeffect "PAUSE", ""()
  br label %spin
sleep:
  call i32 @pthread_mutex_lock(ptr %mutex)
  %s1 = atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %check
check:
  %then = load atomic i64, ptr %generation seq_cst, align 8
  %same = icmp eq i64 %then, %seen
  br i1 %same, label %rest, label %up
rest:
  call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %check
up:
  %s2 = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %woken
woken:
  %fresh = phi i64 [ %now, %spin ], [ %then, %up ]
  %most = load atomic i64, ptr %limit monotonic, align 8
  %wanted = icmp slt i64 %number, %most
  br i1 %wanted, label %enter, label %done
enter:
  %e = atomicrmw add ptr %inside, i64 1 seq_cst
  %is = load atomic i64, ptr %open seq_cst, align 8
  %work = icmp eq i64 %is, 1
  br i1 %work, label %run, label %leave
run:
  %me = add i64 %number, 1
  call void @take(i64 %me)
  br label %leave
leave:
  %l = atomicrmw sub ptr %inside, i64 1 seq_cst
  br label %done
done:
  br label %idle
}

define void @run(ptr %function, ptr %argument, i64 %count, i64 %threads) nounwind {
entry:
  %thread = alloca i64
  %mutex = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 0, i64 0
  %condition = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 1, i64 0
  %generation = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 2, i64 0
  %open = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 3, i64 0
  %inside = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 4, i64 0
  %work = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 5, i64 0
  %sleepers = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 6, i64 0
  %busy = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 7, i64 0
  %started = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 8, i64 0
  %limit = getelementptr [10 x [16 x i64]], ptr @state, i64 0, i64 9, i64 0
  %fewer = icmp slt i64 %count, %threads
  %wished = select i1 %fewer, i64 %count, i64 %threads
  %many = icmp sgt i64 %wished, MOST
  %team = select i1 %many, i64 MOST, i64 %wished
  %alone = icmp slt i64 %team, 2
  br i1 %alone, label %serial, label %claim
claim:
  %pair = cmpxchg ptr %busy, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %grow, label %serial
serial:
  br label %step
step:
  %j = phi i64 [ 0, %serial ], [ %j1, %one ]
  %left = icmp slt i64 %j, %count
  br i1 %left, label %one, label %out
one:
  call void %function(ptr %argument, i64 %j)
  %j1 = add i64 %j, 1
  br label %step
grow:
  %have = load i64, ptr %started
  %helpers = sub i64 %team, 1
  %first = icmp eq i64 %have, 0
  br i1 %first, label %prepare, label %fill
prepare:
  call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  call i32 @pthread_cond_init(ptr %condition, ptr null)
  br label %fill
fill:
  %k = phi i64 [ %have, %grow ], [ %have, %prepare ], [ %k1, %made ]
  %few = icmp slt i64 %k, %helpers
  br i1 %few, label %make, label %publish
make:
  %tag = inttoptr i64 %k to ptr
  %problem = call i32 @pthread_create(ptr %thread, ptr null, ptr @serve, ptr %tag)
  %failed = icmp ne i32 %problem, 0
  br i1 %failed, label %publish, label %made
made:
  %id = load i64, ptr %thread
  call i32 @pthread_detach(i64 %id)
  %k1 = add i64 %k, 1
  store i64 %k1, ptr %started
  br label %fill
publish:
  store ptr %function, ptr %work
  %at = getelementptr i64, ptr %work, i64 1
  store ptr %argument, ptr %at
  %ct = getelementptr i64, ptr %work, i64 2
  store i64 %count, ptr %ct
  %tt = getelementptr i64, ptr %work, i64 3
  store i64 %team, ptr %tt
  br label %shares
shares:
  %o = phi i64 [ 0, %publish ], [ %o1, %shares ]
  %before = mul i64 %count, %o
  %begin = udiv i64 %before, %team
  %next = getelementptr [MOST x [16 x i64]], ptr @next, i64 0, i64 %o, i64 0
  store atomic i64 %begin, ptr %next monotonic, align 8
  %o1 = add i64 %o, 1
  %further = icmp slt i64 %o1, %team
  br i1 %further, label %shares, label %ready
ready:
  store atomic i64 %helpers, ptr %limit seq_cst, align 8
  store atomic i64 1, ptr %open seq_cst, align 8
  %g = atomicrmw add ptr %generation, i64 1 seq_cst
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %some = icmp ne i64 %asleep, 0
  br i1 %some, label %wake, label %join
wake:
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_broadcast(ptr %condition)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %join
join:
  call void @take(i64 0)
  store atomic i64 0, ptr %open seq_cst, align 8
  br label %wait
wait:
  %others = load atomic i64, ptr %inside seq_cst, align 8
  %none = icmp eq i64 %others, 0
  br i1 %none, label %finish, label %hold
hold:
  call void asm sideeffect "PAUSE", ""()
  br label %wait
finish:
  store atomic i64 0, ptr %busy seq_cst, align 8
  br label %out
out:
  ret void
}

define internal void @forget() nounwind {
  call void @llvm.memset.p0.i64(ptr @state, i8 0, i64 1280, i1 false)
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal void @part(ptr %w, i64 %job) nounwind {
entry:
  %args = alloca [16 x ptr], align 16
  %dims = alloca [16 x i64], align 16
  %kernel = load ptr, ptr %w
  %f1 = getelementptr i64, ptr %w, i64 1
  %operands = load i64, ptr %f1
  %f2 = getelementptr i64, ptr %w, i64 2
  %rows = load i64, ptr %f2
  %f3 = getelementptr i64, ptr %w, i64 3
  %length = load i64, ptr %f3
  %f4 = getelementptr i64, ptr %w, i64 4
  %jobs = load i64, ptr %f4
  %f5 = getelementptr i64, ptr %w, i64 5
  %outer = load i64, ptr %f5
  %f6 = getelementptr i64, ptr %w, i64 6
  %sizes = load i64, ptr %f6
  %bases = getelementptr i64, ptr %w, i64 7
  %steps = getelementptr i64, ptr %w, i64 23
  %template = getelementptr i64, ptr %w, i64 71
  %shape = getelementptr i64, ptr %w, i64 87
  %strides = getelementptr i64, ptr %w, i64 95
  %lo = mul i64 %rows, %job
  %low = sdiv i64 %lo, %jobs
  %job1 = add i64 %job, 1
  %hi = mul i64 %rows, %job1
  %high = sdiv i64 %hi, %jobs
  %count = sub i64 %high, %low
  %empty = icmp sle i64 %count, 0
  br i1 %empty, label %end, label %copy
copy:
  %c = phi i64 [ 0, %entry ], [ %c1, %copy ]
  %from = getelementptr i64, ptr %template, i64 %c
  %size = load i64, ptr %from
  %to = getelementptr i64, ptr %dims, i64 %c
  store i64 %size, ptr %to
  %c1 = add i64 %c, 1
  %copied = icmp sge i64 %c1, %sizes
  br i1 %copied, label %row, label %copy
row:
  %r = phi i64 [ %low, %copy ], [ %r1, %called ]
  br label %each
each:
  %q = phi i64 [ 0, %row ], [ %q1, %placed ]
  %bq = getelementptr i64, ptr %bases, i64 %q
  %start = load ptr, ptr %bq
  br label %decode
decode:
  %d = phi i64 [ %outer, %each ], [ %d1, %digit ]
  %rest = phi i64 [ %r, %each ], [ %quotient, %digit ]
  %offset = phi i64 [ 0, %each ], [ %offset1, %digit ]
  %d1 = sub i64 %d, 1
  %outermost = icmp sle i64 %d, 1
  br i1 %outermost, label %placed, label %digit
digit:
  %na = getelementptr i64, ptr %shape, i64 %d1
  %n = load i64, ptr %na
  %quotient = sdiv i64 %rest, %n
  %back = mul i64 %quotient, %n
  %coordinate = sub i64 %rest, %back
  %line = mul i64 %q, 8
  %cell = add i64 %line, %d1
  %st = getelementptr i64, ptr %strides, i64 %cell
  %stride = load i64, ptr %st
  %part = mul i64 %coordinate, %stride
  %offset1 = add i64 %offset, %part
  br label %decode
placed:
  %line.first = mul i64 %q, 8
  %st.first = getelementptr i64, ptr %strides, i64 %line.first
  %stride.first = load i64, ptr %st.first
  %part.first = mul i64 %rest, %stride.first
  %offset.all = add i64 %offset, %part.first
  %place = getelementptr i8, ptr %start, i64 %offset.all
  %pa = getelementptr ptr, ptr %args, i64 %q
  store ptr %place, ptr %pa
  %q1 = add i64 %q, 1
  %all = icmp sge i64 %q1, %operands
  br i1 %all, label %called, label %each
called:
  call void %kernel(ptr %args, ptr %dims, ptr %steps, ptr null)
  %r1 = add i64 %r, 1
  %last = icmp sge i64 %r1, %high
  br i1 %last, label %end, label %row
end:
  ret void
}

define internal void @slice(ptr %w, i64 %job) nounwind {
entry:
  %args = alloca [16 x ptr], align 16
  %dims = alloca [16 x i64], align 16
  %kernel = load ptr, ptr %w
  %f1 = getelementptr i64, ptr %w, i64 1
  %operands = load i64, ptr %f1
  %f2 = getelementptr i64, ptr %w, i64 2
  %sizes = load i64, ptr %f2
  %f3 = getelementptr i64, ptr %w, i64 3
  %jobs = load i64, ptr %f3
  %f4 = getelementptr i64, ptr %w, i64 4
  %bases = load ptr, ptr %f4
  %f5 = getelementptr i64, ptr %w, i64 5
  %extents = load ptr, ptr %f5
  %f6 = getelementptr i64, ptr %w, i64 6
  %steps = load ptr, ptr %f6
  %total = load i64, ptr %extents
  %plain.loop = icmp eq i64 %sizes, 1
  %mask = select i1 %plain.loop, i64 -64, i64 -1
  %lo = mul i64 %total, %job
  %lq = sdiv i64 %lo, %jobs
  %low = and i64 %lq, %mask
  %job1 = add i64 %job, 1
  %hi = mul i64 %total, %job1
  %hq = sdiv i64 %hi, %jobs
  %hm = and i64 %hq, %mask
  %final = icmp eq i64 %job1, %jobs
  %high = select i1 %final, i64 %total, i64 %hm
  %count = sub i64 %high, %low
  %empty = icmp sle i64 %count, 0
  br i1 %empty, label %end, label %copy
copy:
  %c = phi i64 [ 0, %entry ], [ %c1, %copy ]
  %from = getelementptr i64, ptr %extents, i64 %c
  %size = load i64, ptr %from
  %to = getelementptr i64, ptr %dims, i64 %c
  store i64 %size, ptr %to
  %c1 = add i64 %c, 1
  %copied = icmp sge i64 %c1, %sizes
  br i1 %copied, label %first, label %copy
first:
  store i64 %count, ptr %dims
  br label %shift
shift:
  %p = phi i64 [ 0, %first ], [ %p1, %shift ]
  %ba = getelementptr i64, ptr %bases, i64 %p
  %base = load ptr, ptr %ba
  %sa = getelementptr i64, ptr %steps, i64 %p
  %stepv = load i64, ptr %sa
  %move = mul i64 %stepv, %low
  %moved = getelementptr i8, ptr %base, i64 %move
  %ta = getelementptr ptr, ptr %args, i64 %p
  store ptr %moved, ptr %ta
  %p1 = add i64 %p, 1
  %shifted = icmp sge i64 %p1, %operands
  br i1 %shifted, label %go, label %shift
go:
  call void %kernel(ptr %args, ptr %dims, ptr %steps, ptr null)
  br label %end
end:
  ret void
}

define internal void @split(ptr %args, ptr %dims, ptr %steps, ptr %data) nounwind {
entry:
  %block = alloca [8 x i64], align 16
  %kernel = load ptr, ptr %data
  %f2 = getelementptr i64, ptr %data, i64 2
  %sizes = load i64, ptr %f2
  %f3 = getelementptr i64, ptr %data, i64 3
  %settings = load ptr, ptr %f3
  %threads = load i64, ptr %settings
  %f4 = getelementptr i64, ptr %data, i64 4
  %weight = load i64, ptr %f4
  %n = load i64, ptr %dims
  %start = mul i64 %n, %weight
  br label %multiply
multiply:
  %i = phi i64 [ 1, %entry ], [ %i1, %factor ]
  %work = phi i64 [ %start, %entry ], [ %product, %factor ]
  %more = icmp slt i64 %i, %sizes
  br i1 %more, label %factor, label %decide
factor:
  %at = getelementptr i64, ptr %dims, i64 %i
  %extent = load i64, ptr %at
  %product = mul i64 %work, %extent
  %i1 = add i64 %i, 1
  br label %multiply
decide:
  %large = icmp sge i64 %work, WORTHWHILE
  %several = icmp sgt i64 %threads, 1
  %rows = icmp sgt i64 %n, 1
  %w1 = and i1 %large, %several
  %wanted = and i1 %w1, %rows
  br i1 %wanted, label %divide, label %alone
alone:
  call void %kernel(ptr %args, ptr %dims, ptr %steps, ptr null)
  ret void
divide:
  %shares = lshr i64 %work, SHARE_BITS
  %enough = icmp slt i64 %threads, %shares
  %count = select i1 %enough, i64 %threads, i64 %shares
  %wished = shl i64 %count, 2
  %few = icmp slt i64 %n, %wished
  %jobs = select i1 %few, i64 %n, i64 %wished
  %f1 = getelementptr i64, ptr %data, i64 1
  %operands = load i64, ptr %f1
  store ptr %kernel, ptr %block
  %b1 = getelementptr i64, ptr %block, i64 1
  store i64 %operands, ptr %b1
  %b2 = getelementptr i64, ptr %block, i64 2
  store i64 %sizes, ptr %b2
  %b3 = getelementptr i64, ptr %block, i64 3
  store i64 %jobs, ptr %b3
  %b4 = getelementptr i64, ptr %block, i64 4
  store ptr %args, ptr %b4
  %b5 = getelementptr i64, ptr %block, i64 5
  store ptr %dims, ptr %b5
  %b6 = getelementptr i64, ptr %block, i64 6
  store ptr %steps, ptr %b6
  call void @run(ptr @slice, ptr %block, i64 %jobs, i64 %count)
  ret void
}

define internal void @cell(ptr %w, i64 %job) nounwind {
entry:
  %args = alloca [16 x ptr], align 16
  %dims = alloca [8 x i64], align 16
  %data = load ptr, ptr %w
  %w1 = getelementptr i64, ptr %w, i64 1
  %bases = load ptr, ptr %w1
  %w2 = getelementptr i64, ptr %w, i64 2
  %extents = load ptr, ptr %w2
  %w3 = getelementptr i64, ptr %w, i64 3
  %steps = load ptr, ptr %w3
  %kernel = load ptr, ptr %data
  %d1 = getelementptr i64, ptr %data, i64 1
  %operands = load i64, ptr %d1
  %d2 = getelementptr i64, ptr %data, i64 2
  %room = load i64, ptr %d2
  %d3 = getelementptr i64, ptr %data, i64 3
  %room.bytes = load i64, ptr %d3
  %d4 = getelementptr i64, ptr %data, i64 4
  %items = load i64, ptr %d4
  %d5 = getelementptr i64, ptr %data, i64 5
  %rows = load i64, ptr %d5
  %d6 = getelementptr i64, ptr %data, i64 6
  %columns = load i64, ptr %d6
  %d7 = getelementptr i64, ptr %data, i64 7
  %row.unit = load i64, ptr %d7
  %d8 = getelementptr i64, ptr %data, i64 8
  %column.unit = load i64, ptr %d8
  %strides = getelementptr i64, ptr %data, i64 9
  %above = udiv i64 %job, %columns
  %column = urem i64 %job, %columns
  %item = udiv i64 %above, %rows
  %row = urem i64 %above, %rows
  %batch = load i64, ptr %extents
  %e1 = getelementptr i64, ptr %extents, i64 1
  %m = load i64, ptr %e1
  %e2 = getelementptr i64, ptr %extents, i64 2
  %k = load i64, ptr %e2
  %e3 = getelementptr i64, ptr %extents, i64 3
  %n = load i64, ptr %e3
  %e4 = getelementptr i64, ptr %extents, i64 4
  %s = load i64, ptr %e4
  %i.low = call i64 @bound(i64 %batch, i64 %items, i64 %item, i64 1)
  %item1 = add i64 %item, 1
  %i.high = call i64 @bound(i64 %batch, i64 %items, i64 %item1, i64 1)
  %r.low = call i64 @bound(i64 %m, i64 %rows, i64 %row, i64 %row.unit)
  %row1 = add i64 %row, 1
  %r.high = call i64 @bound(i64 %m, i64 %rows, i64 %row1, i64 %row.unit)
  %c.low = call i64 @bound(i64 %n, i64 %columns, i64 %column, i64 %column.unit)
  %column1 = add i64 %column, 1
  %c.high = call i64 @bound(i64 %n, i64 %columns, i64 %column1, i64 %column.unit)
  %i.count = sub i64 %i.high, %i.low
  %r.count = sub i64 %r.high, %r.low
  %c.count = sub i64 %c.high, %c.low
  store i64 %i.count, ptr %dims
  %t1 = getelementptr i64, ptr %dims, i64 1
  store i64 %r.count, ptr %t1
  %t2 = getelementptr i64, ptr %dims, i64 2
  store i64 %k, ptr %t2
  %t3 = getelementptr i64, ptr %dims, i64 3
  store i64 %c.count, ptr %t3
  %t4 = getelementptr i64, ptr %dims, i64 4
  store i64 %s, ptr %t4
  %x1 = mul i64 %i.count, %r.count
  %x2 = mul i64 %x1, %c.count
  %nothing = icmp sle i64 %x2, 0
  br i1 %nothing, label %end, label %each
each:
  %p = phi i64 [ 0, %entry ], [ %p1, %placed ]
  %ba = getelementptr i64, ptr %bases, i64 %p
  %base = load ptr, ptr %ba
  %is.room = icmp eq i64 %p, %room
  %sa = getelementptr i64, ptr %steps, i64 %p
  %step = load i64, ptr %sa
  %by.item = mul i64 %step, %i.low
  %own = mul i64 %job, %room.bytes
  %first = select i1 %is.room, i64 %own, i64 %by.item
  %two = shl i64 %p, 1
  %ra = getelementptr i64, ptr %strides, i64 %two
  %row.at = load i64, ptr %ra
  %has.row = icmp sge i64 %row.at, 0
  %row.safe = select i1 %has.row, i64 %row.at, i64 0
  %rs = getelementptr i64, ptr %steps, i64 %row.safe
  %row.stride = load i64, ptr %rs
  %by.row = mul i64 %row.stride, %r.low
  %row.part = select i1 %has.row, i64 %by.row, i64 0
  %two1 = add i64 %two, 1
  %ca = getelementptr i64, ptr %strides, i64 %two1
  %column.at = load i64, ptr %ca
  %has.column = icmp sge i64 %column.at, 0
  %column.safe = select i1 %has.column, i64 %column.at, i64 0
  %cs = getelementptr i64, ptr %steps, i64 %column.safe
  %column.stride = load i64, ptr %cs
  %by.column = mul i64 %column.stride, %c.low
  %column.part = select i1 %has.column, i64 %by.column, i64 0
  %o1 = add i64 %first, %row.part
  %offset = add i64 %o1, %column.part
  %place = getelementptr i8, ptr %base, i64 %offset
  %pa = getelementptr ptr, ptr %args, i64 %p
  store ptr %place, ptr %pa
  br label %placed
placed:
  %p1 = add i64 %p, 1
  %all = icmp sge i64 %p1, %operands
  br i1 %all, label %go, label %each
go:
  call void %kernel(ptr %args, ptr %dims, ptr %steps, ptr null)
  br label %end
end:
  ret void
}

define internal i64 @bound(i64 %length, i64 %parts, i64 %number, i64 %unit) nounwind {
  %less = add i64 %unit, -1
  %up = add i64 %length, %less
  %units = udiv i64 %up, %unit
  %share = mul i64 %units, %number
  %whole = udiv i64 %share, %parts
  %at = mul i64 %whole, %unit
  %beyond = icmp ugt i64 %at, %length
  %result = select i1 %beyond, i64 %length, i64 %at
  ret i64 %result
}

define internal void @grid(ptr %args, ptr %dims, ptr %steps, ptr %data) nounwind {
  %block = alloca [4 x i64], align 16
  store ptr %data, ptr %block
  %b1 = getelementptr i64, ptr %block, i64 1
  store ptr %args, ptr %b1
  %b2 = getelementptr i64, ptr %block, i64 2
  store ptr %dims, ptr %b2
  %b3 = getelementptr i64, ptr %block, i64 3
  store ptr %steps, ptr %b3
  %d4 = getelementptr i64, ptr %data, i64 4
  %items = load i64, ptr %d4
  %d5 = getelementptr i64, ptr %data, i64 5
  %rows = load i64, ptr %d5
  %d6 = getelementptr i64, ptr %data, i64 6
  %columns = load i64, ptr %d6
  %x = mul i64 %items, %rows
  %jobs = mul i64 %x, %columns
  call void @run(ptr @cell, ptr %block, i64 %jobs, i64 %jobs)
  ret void
}

define internal void @whole(ptr %w, i64 %job) nounwind {
entry:
  %f1 = getelementptr i64, ptr %w, i64 1
  %each = load i64, ptr %f1
  %f2 = getelementptr i64, ptr %w, i64 2
  %size = load i64, ptr %f2
  %f3 = getelementptr i64, ptr %w, i64 3
  %dims.at = load i64, ptr %f3
  %f4 = getelementptr i64, ptr %w, i64 4
  %steps.at = load i64, ptr %f4
  %before = mul i64 %job, %each
  br label %one
one:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %number = add i64 %before, %i
  %skip = mul i64 %number, %size
  %first = add i64 %skip, 5
  %block = getelementptr i64, ptr %w, i64 %first
  %kernel = load ptr, ptr %block
  %absent = icmp eq ptr %kernel, null
  br i1 %absent, label %next, label %go
go:
  %args = getelementptr i64, ptr %block, i64 1
  %dims = getelementptr i64, ptr %block, i64 %dims.at
  %steps = getelementptr i64, ptr %block, i64 %steps.at
  call void %kernel(ptr %args, ptr %dims, ptr %steps, ptr null)
  br label %next
next:
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %each
  br i1 %more, label %one, label %end
end:
  ret void
}

define ptr @pool(ptr %w, i64 %threads) nounwind {
entry:
  %reset = icmp eq i64 %threads, 0
  br i1 %reset, label %clear, label %kind
clear:
  call void @forget()
  ret ptr null
kind:
  %asked = icmp eq ptr %w, null
  br i1 %asked, label %answer, label %work
answer:
  %first = icmp eq i64 %threads, 1
  %second = icmp eq i64 %threads, 2
  %other = select i1 %second, ptr @grid, ptr @run
  %found = select i1 %first, ptr @split, ptr %other
  ret ptr %found
work:
  %listed = icmp slt i64 %threads, 0
  br i1 %listed, label %list, label %go
list:
  %positive = sub i64 0, %threads
  %calls = load i64, ptr %w
  call void @run(ptr @whole, ptr %w, i64 %calls, i64 %positive)
  ret ptr null
go:
  %f4 = getelementptr i64, ptr %w, i64 4
  %jobs = load i64, ptr %f4
  call void @run(ptr @part, ptr %w, i64 %jobs, i64 %threads)
  ret ptr null
}
"""
