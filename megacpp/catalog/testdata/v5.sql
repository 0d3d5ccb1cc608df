-- SPDX-License-Identifier: Apache-2.0
-- A catalog of version 5: one of version 4 brought up to date.
PRAGMA application_id = 1298491203;
PRAGMA user_version = 5;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE signature (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL UNIQUE,
  subject TEXT NOT NULL,       -- key without the code version
  code_version TEXT NOT NULL,
  hardware TEXT NOT NULL,
  model TEXT NOT NULL,
  model_hash TEXT NOT NULL,
  layout TEXT NOT NULL,
  features TEXT NOT NULL,
  shape TEXT NOT NULL
, platform TEXT NOT NULL DEFAULT '', threads INTEGER NOT NULL DEFAULT 0, processor TEXT NOT NULL DEFAULT '');
INSERT INTO signature VALUES(1,'321c40c1572c0845','627f299c6f4e9c81','0.1.0','host:1 limit 8GiB','nam52-tiny','fa1485fb3989229a','policy=spmd zero=1','','batch=8 sequence=64 micro_steps=1 precision=f32','',0,'');
INSERT INTO signature VALUES(2,'c16d0b036f3fe5b0','ac56bb2031bb66f9','0.1.0','host:1 limit 20MiB','nam52-tiny','fa1485fb3989229a','policy=spmd zero=1','','batch=8 sequence=64 micro_steps=1 precision=f32','',0,'');
INSERT INTO signature VALUES(3,'34899e2503578e8b','e5496b640ac3d5e8','0.1.0','host:2 fault chip 1 step 1','nam52-tiny','fa1485fb3989229a','policy=spmd data_parallel=2 zero=1','','batch=8 sequence=64 micro_steps=1 precision=f32','',0,'');
INSERT INTO signature VALUES(4,'2804cbef0410dd1d','8100252a0a491a23','0.1.0','host:1 limit 8600000','nam52-tiny','fa1485fb3989229a','policy=spmd zero=1','','batch=8 sequence=64 micro_steps=1 precision=f32','',0,'');
INSERT INTO signature VALUES(5,'4a9f8c0ceb913ac1','5a627b150c24f117','0.1.0','host:1 limit 8600000','nam52-tiny','fa1485fb3989229a','policy=spmd zero=1','','batch=4 sequence=64 micro_steps=2 precision=f32','',0,'');
INSERT INTO signature VALUES(6,'7d2107cc2559c2ba','1384384356f0c8f5','0.1.0','host:2','nam52-tiny','fa1485fb3989229a','policy=fsdp data_parallel=2 zero=3','','batch=8 sequence=64 micro_steps=1 precision=f32','',0,'');
INSERT INTO signature VALUES(7,'5f8417702b296ccc','d98ceea2460b8148','0.1.0','host:1','nam52-tiny','fa1485fb3989229a','policy=spmd zero=1','placement=megacpp','batch=8 sequence=64 micro_steps=1 precision=f32','',0,'');
INSERT INTO signature VALUES(8,'ef63d39b988c41a0','8100252a0a491a23','0.1.0+9d3c51f0a2b47e68','host:1 limit 8600000','nam52-tiny','fa1485fb3989229a','policy=spmd zero=1','','batch=8 sequence=64 micro_steps=1 precision=f32','',0,'');
INSERT INTO signature VALUES(9,'5485487a9fcdda68','d98ceea2460b8148','0.1.0+9d3c51f0a2b47e68','host:1','nam52-tiny','fa1485fb3989229a','policy=spmd zero=1','placement=megacpp','batch=8 sequence=64 micro_steps=1 precision=f32','plugin cpu 0.6.1 (build 5f2c9d0e77aa12bb), driver 550.54.15',0,'');
INSERT INTO signature VALUES(10,'39fb80e7cdeaf90c','1384384356f0c8f5','0.1.0+5be1c07a93d2f486','host:2','nam52-tiny','fa1485fb3989229a','policy=fsdp data_parallel=2 zero=3','','batch=8 sequence=64 micro_steps=1 precision=f32','',1,'Arm implementer 0x41 part 0xd0c');
INSERT INTO signature VALUES(11,'e7a0dee8faea86b5','1384384356f0c8f5','0.1.0+5be1c07a93d2f486','host:2','nam52-tiny','fa1485fb3989229a','policy=fsdp data_parallel=2 zero=3','','batch=8 sequence=64 micro_steps=1 precision=f32','',32,'AMD EPYC 9654 96-Core Processor');
CREATE TABLE outcome (         -- one launch, or one rung of a launch
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  signature INTEGER NOT NULL REFERENCES signature (id) ON DELETE CASCADE,
  at TEXT NOT NULL,            -- UTC
  fits INTEGER NOT NULL,
  oom_class TEXT NOT NULL,
  phase TEXT NOT NULL,
  rung INTEGER NOT NULL,
  chip TEXT NOT NULL,
  predicted_bytes INTEGER,
  measured_bytes INTEGER,
  limit_bytes INTEGER,
  predicted_seconds REAL,      -- of a step
  measured_seconds REAL,
  note TEXT NOT NULL
, report TEXT NOT NULL DEFAULT '');
INSERT INTO outcome VALUES(1,1,'2026-11-16T14:10:05Z',1,'','run',0,'chip 0',10780864,10780864,8589934592,0.030217066894870702604,0.028158925000000001315,'','');
INSERT INTO outcome VALUES(2,2,'2026-11-16T14:10:05Z',1,'','run',0,'chip 0',10780864,10780864,20971520,0.030217066894870702604,0.048297320999999997226,'','');
INSERT INTO outcome VALUES(3,3,'2026-11-16T14:10:05Z',0,'runtime allocation','run step 1',0,'chip 1: data 1 on host vm',5900672,NULL,12161959936,0.030471858833702389346,NULL,'a drill; activation 2.98 MiB, weight 977.50 KiB, optimizer 977.50 KiB, gradient 488.75 KiB, temporary 256.00 KiB, batch 2.01 KiB, collective 4 B, largest 352.00 KiB dot f32[4,64,352], 352.00 KiB dot f32[4,64,352], 352.00 KiB fused f32[4,64,352]','');
INSERT INTO outcome VALUES(4,4,'2026-11-16T14:10:15Z',0,'compile-time HBM','planning',0,'chip 0 at (0) on host 0',10780864,NULL,8600000,0.030217066894870702604,NULL,'activation 6.21 MiB, optimizer 1.91 MiB, weight 977.50 KiB, gradient 977.50 KiB, temporary 256.00 KiB, batch 4.01 KiB, largest 704.00 KiB dot f32[8,64,352], 704.00 KiB dot f32[8,64,352], 704.00 KiB fused f32[8,64,352]','');
INSERT INTO outcome VALUES(5,5,'2026-11-16T14:10:15Z',1,'','run',1,'chip 0',7396544,7396544,8600000,0.030241423589655942045,0.043385231000000003265,'','');
INSERT INTO outcome VALUES(6,6,'2026-11-16T14:10:15Z',1,'','run',0,'chip 0: data 0',6600128,6600128,24257370688,0.030286557297912183179,0.045062900000000002954,'','');
INSERT INTO outcome VALUES(7,7,'2026-11-16T14:10:24Z',1,'','run',0,'chip 0',10780864,NULL,24231612416,0.013672568022670510829,0.049893849999999996536,'','');
INSERT INTO outcome VALUES(8,8,'2026-11-16T15:00:00Z',0,'compile-time HBM','planning',0,'chip 0 at (0) on host 0',10780864,NULL,8600000,NULL,NULL,'went on at rung 1 with train.batch=4 train.micro_steps=2','{"code":"E2001","class":"compile-time HBM","phase":"planning","step":-1,"chip":"chip 0 at (0) on host 0","wanted_bytes":10780864,"limit_bytes":8600000,"injected":false,"subject":{"model":"nam52-tiny","pattern":"AE","depth":2,"hidden":128,"batch":8,"sequence":64,"micro_steps":1,"precision":"f32","layout":"policy=spmd zero=1","mesh":"","hardware":"host:1","backend":"cpu"},"roles":[{"what":"activation","scope":"","bytes":5000000}],"largest":[{"what":"dot f32[8,64,128]","scope":"head","bytes":262144}],"reductions":[{"rung":1,"name":"batch","settings":"train.batch=4 train.micro_steps=2","outcome":"fits","reason":"","needed_bytes":7396544,"limit_bytes":8600000}],"ending":"went on at rung 1 with train.batch=4 train.micro_steps=2","message":""}');
INSERT INTO outcome VALUES(9,9,'2026-11-16T15:00:02Z',1,'','run',0,'',NULL,NULL,NULL,NULL,0.050000000000000002776,'','');
INSERT INTO outcome VALUES(10,10,'2026-11-16T17:30:00Z',1,'','run',0,'chip 0: data 0',7340032,7340032,8589934592,0.02999999999999999889,0.050000000000000002776,'','');
INSERT INTO outcome VALUES(11,11,'2026-11-16T17:30:01Z',1,'','run',0,'chip 0: data 0',7340032,7340032,8589934592,0.02999999999999999889,0.0015625000000000000867,'','');
CREATE TABLE start (           -- settings that worked for a launch that asked for the signature
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  signature INTEGER NOT NULL REFERENCES signature (id) ON DELETE CASCADE,
  at TEXT NOT NULL,
  rung INTEGER NOT NULL,
  settings TEXT NOT NULL,      -- JSON: {"train.batch": "2"}
  reasons TEXT NOT NULL,       -- JSON: ["..."]
  after_outcome INTEGER NOT NULL
);
INSERT INTO start VALUES(1,4,'2026-11-16T14:10:15Z',1,'{"train.batch":"4","train.micro_steps":"2"}','["rung 1 batch      fits        train.batch=4 train.micro_steps=2: 7.05 MiB of 8.20 MiB"]',5);
INSERT INTO start VALUES(2,8,'2026-11-16T15:00:01Z',1,'{"train.batch":"4","train.micro_steps":"2"}','["rung 1 batch      fits"]',8);
CREATE TABLE sample (          -- predicted parts against one measured number
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  signature INTEGER NOT NULL REFERENCES signature (id) ON DELETE CASCADE,
  at TEXT NOT NULL,
  lane TEXT NOT NULL,
  quantity TEXT NOT NULL,
  parts TEXT NOT NULL,         -- JSON: {"weights": 1.5e9}
  measured REAL NOT NULL
);
INSERT INTO sample VALUES(1,1,'2026-11-16T14:10:05Z','cpu host','peak bytes','{"activation":6510596,"batch":4104,"gradient":1000960,"optimizer":2001920,"temporary outside blocks":262144,"weight":1000960,"padding":180}',10780864.0);
INSERT INTO sample VALUES(2,1,'2026-11-16T14:10:05Z','cpu host','step seconds','{"compute":0.02914174332841355,"memory":0.001075323566457152,"links":0,"bubble":0}',0.028158925000000001315);
INSERT INTO sample VALUES(3,2,'2026-11-16T14:10:05Z','cpu host','peak bytes','{"activation":6510596,"batch":4104,"gradient":1000960,"optimizer":2001920,"temporary outside blocks":262144,"weight":1000960,"padding":180}',10780864.0);
INSERT INTO sample VALUES(4,2,'2026-11-16T14:10:05Z','cpu host','step seconds','{"compute":0.02914174332841355,"memory":0.001075323566457152,"links":0,"bubble":0}',0.048297320999999997226);
INSERT INTO sample VALUES(5,5,'2026-11-16T14:10:15Z','cpu host','peak bytes','{"activation":3259396,"batch":2056,"gradient":1000960,"optimizer":2001920,"temporary outside blocks":131072,"weight":1000960,"padding":180}',7396544.0);
INSERT INTO sample VALUES(6,5,'2026-11-16T14:10:15Z','cpu host','step seconds','{"compute":0.02914174332841355,"memory":0.0010996802612423895,"links":0,"bubble":0}',0.043385231000000003265);
INSERT INTO sample VALUES(7,6,'2026-11-16T14:10:15Z','cpu host','peak bytes','{"activation":2603008,"batch":2056,"collective":738308,"gradient":500480,"optimizer":1000960,"temporary of E":901632,"temporary outside blocks":262656,"weight":500480,"padding":90548}',6600128.0);
INSERT INTO sample VALUES(8,6,'2026-11-16T14:10:15Z','cpu host','step seconds','{"compute":0.02914174332841355,"memory":0.0010722499910986426,"links":7.256397839999098e-05,"bubble":0}',0.045062900000000002954);
INSERT INTO sample VALUES(9,7,'2026-11-16T14:10:24Z','xla host placement=megacpp','step seconds','{"compute":0.013154572041757304,"memory":0.0005179959809132074,"links":0,"bubble":0}',0.049893849999999996536);
INSERT INTO sample VALUES(10,10,'2026-11-16T17:30:00Z','cpu host','peak bytes','{"activation":2097152,"optimizer":3145728,"weight":2097152}',7340032.0);
INSERT INTO sample VALUES(11,11,'2026-11-16T17:30:01Z','cpu host','peak bytes','{"activation":2097152,"optimizer":3145728,"weight":2097152}',7340032.0);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('signature',11);
INSERT INTO sqlite_sequence VALUES('outcome',11);
INSERT INTO sqlite_sequence VALUES('sample',11);
INSERT INTO sqlite_sequence VALUES('start',2);
CREATE INDEX outcome_signature ON outcome (signature);
CREATE INDEX start_signature ON start (signature);
CREATE INDEX sample_signature ON sample (signature);
CREATE INDEX sample_lane ON sample (lane, quantity);
CREATE INDEX signature_subject ON signature (subject);
COMMIT;
